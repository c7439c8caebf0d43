/* Records in columns, a run for each partition. */
#include "native.h"

/* The messages of one partition among those of a call. */
typedef struct {
    rd_kafka_topic_t *topic;
    int32_t partition;
    Py_ssize_t count;
    int64_t first, last;
    int64_t lowest, highest; /* times */
    int gaps;
    int headers;
    int cut;      /* whether records did not fit */
    int64_t rest; /* the offset of the first of them */
    PyObject *keys, *values, *times, *offsets, *heads, *unreadable;
    Py_ssize_t filled;
} Run;

typedef struct {
    Client *self;
    rd_kafka_message_t **messages;
    Py_ssize_t got;
    int *run_of; /* of each message; below 0: it is an error, or does not fit */
    int64_t held, most_held, header_bytes; /* bytes of headers, as streamlet/kafka/poll_bound.py says */
    int full;
    Run *runs;
    int count, room;
} Call;

static int run_for(Call *call, const rd_kafka_message_t *message) {
    const Library *library = call->self->library;
    for (int i = call->count - 1; i >= 0; i--)
        if (call->runs[i].partition == message->partition &&
            (call->runs[i].topic == message->rkt ||
             !strcmp(library->topic_name(call->runs[i].topic), library->topic_name(message->rkt))))
            return i;
    if (call->count == call->room) {
        int room = call->room ? 2 * call->room : 16;
        Run *more = realloc(call->runs, (size_t)room * sizeof(Run));
        if (!more) return -1;
        call->runs = more;
        call->room = room;
    }
    Run *run = &call->runs[call->count];
    memset(run, 0, sizeof(Run));
    run->topic = message->rkt;
    run->partition = message->partition;
    run->first = message->offset;
    return call->count++;
}

/* Takes a record if its headers fit with those before it; behind one that does not, none fits. */
static int fits(Call *call, Run *run, const rd_kafka_message_t *message) {
    const Library *library = call->self->library;
    rd_kafka_headers_t *found;
    if (call->full) return 0;
    if (library->message_headers(message, &found)) return 1;
    int64_t held = 0;
    const char *name;
    const void *data;
    size_t length;
    for (size_t i = 0; !library->header_get_all(found, i, &name, &data, &length); i++)
        held += call->header_bytes + (int64_t)strlen(name) + (int64_t)length;
    call->full = call->held && call->held + held > call->most_held;
    if (call->full) return 0;
    call->held += held;
    run->headers = 1;
    return 1;
}

/* Counts what each partition has, so that its columns are made once. */
static int sorted(Call *call, int headers) {
    int last = -1;
    for (Py_ssize_t i = 0; i < call->got; i++) {
        rd_kafka_message_t *message = call->messages[i];
        if (message->err) {
            call->run_of[i] = -1;
            continue;
        }
        if (last < 0 || call->runs[last].topic != message->rkt ||
            call->runs[last].partition != message->partition)
            last = run_for(call, message);
        if (last < 0) {
            PyErr_NoMemory();
            return -1;
        }
        Run *run = &call->runs[last];
        if (headers && !fits(call, run, message)) {
            if (!run->cut) run->rest = message->offset;
            run->cut = 1;
            call->run_of[i] = -1;
            continue;
        }
        run->gaps |= run->count && message->offset != run->last + 1;
        run->last = message->offset;
        run->count++;
        call->run_of[i] = last;
    }
    return 0;
}

static int begun(Run *run) {
    run->keys = PyList_New(run->count);
    run->values = PyList_New(run->count);
    run->times = PyList_New(run->count);
    run->offsets = run->gaps ? PyList_New(run->count) : Py_NewRef(Py_None);
    run->heads = run->headers ? PyList_New(run->count) : Py_NewRef(Py_None);
    run->unreadable = Py_NewRef(Py_None);
    return run->keys && run->values && run->times && run->offsets && run->heads ? 0 : -1;
}

static PyObject *bytes_or_none(const void *data, size_t length) {
    if (!data) return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize(data, (Py_ssize_t)length);
}

/* The headers of a record as [(name, bytes or None)]; None without any. */
static PyObject *headers_of(const Library *library, const rd_kafka_message_t *message) {
    rd_kafka_headers_t *found;
    if (library->message_headers(message, &found)) return Py_NewRef(Py_None);
    PyObject *all = PyList_New(0);
    const char *name;
    const void *data;
    size_t length;
    for (size_t i = 0; all && !library->header_get_all(found, i, &name, &data, &length); i++) {
        PyObject *text = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), NULL);
        PyObject *pair = text ? Py_BuildValue("NN", text, bytes_or_none(data, length)) : NULL;
        if (!pair || PyList_Append(all, pair) < 0) Py_CLEAR(all);
        Py_XDECREF(pair);
    }
    return all;
}

/* Notes what is wrong with the headers of a record, and goes on without them. */
static PyObject *unread(Run *run, int64_t offset) {
    PyObject *kind, *error, *trace;
    if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return NULL;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    Py_XDECREF(kind);
    Py_XDECREF(trace);
    if (run->unreadable == Py_None) {
        Py_DECREF(run->unreadable);
        run->unreadable = PyDict_New();
    }
    PyObject *key = PyLong_FromLongLong(offset);
    int bad = !run->unreadable || !key || PyDict_SetItem(run->unreadable, key, error) < 0;
    Py_XDECREF(key);
    Py_XDECREF(error);
    return bad ? NULL : Py_NewRef(Py_None);
}

static int put(PyObject *column, Py_ssize_t index, PyObject *value) {
    return value ? PyList_SetItem(column, index, value) : -1;
}

static int filled(Call *call, int headers) {
    const Library *library = call->self->library;
    for (int i = 0; i < call->count; i++)
        if (begun(&call->runs[i]) < 0) return -1;
    for (Py_ssize_t i = 0; i < call->got; i++) {
        if (call->run_of[i] < 0) continue;
        const rd_kafka_message_t *message = call->messages[i];
        Run *run = &call->runs[call->run_of[i]];
        Py_ssize_t at = run->filled++;
        int64_t time = library->message_timestamp(message, NULL);
        if (!at || time < run->lowest) run->lowest = time;
        if (!at || time > run->highest) run->highest = time;
        if (put(run->keys, at, bytes_or_none(message->key, message->key_len)) < 0 ||
            put(run->values, at, bytes_or_none(message->payload, message->len)) < 0 ||
            put(run->times, at, PyLong_FromLongLong(time)) < 0)
            return -1;
        if (run->gaps && put(run->offsets, at, PyLong_FromLongLong(message->offset)) < 0)
            return -1;
        if (headers && run->headers) {
            PyObject *found = headers_of(library, message);
            if (put(run->heads, at, found ? found : unread(run, message->offset)) < 0) return -1;
        }
    }
    return 0;
}

static PyObject *runs_of(Call *call) {
    const Library *library = call->self->library;
    PyObject *all = PyList_New(0);
    for (int i = 0; all && i < call->count; i++) {
        Run *run = &call->runs[i];
        if (!run->count) continue;
        PyObject *one = Py_BuildValue("siLOOOOOOLL", library->topic_name(run->topic),
                                      (int)run->partition, (long long)run->first, run->offsets,
                                      run->keys, run->values, run->times, run->heads,
                                      run->unreadable, (long long)run->lowest,
                                      (long long)run->highest);
        if (!one || PyList_Append(all, one) < 0) Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

/* Where records did not fit: [(topic, partition, offset)]. */
static PyObject *rests_of(Call *call) {
    PyObject *all = PyList_New(0);
    for (int i = 0; all && i < call->count; i++) {
        Run *run = &call->runs[i];
        if (!run->cut) continue;
        PyObject *one = Py_BuildValue("siL", call->self->library->topic_name(run->topic),
                                      (int)run->partition, (long long)run->rest);
        if (!one || PyList_Append(all, one) < 0) Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

static PyObject *errors_of(Call *call) {
    const Library *library = call->self->library;
    PyObject *all = PyList_New(0);
    for (Py_ssize_t i = 0; all && i < call->got; i++) {
        rd_kafka_message_t *message = call->messages[i];
        if (!message->err) continue;
        const char *why = library->message_errstr(message);
        PyObject *error =
            error_new(call->self->state, message->err, why ? why : library->err2str(message->err));
        PyObject *one = NULL;
        if (error)
            one = Py_BuildValue("ziN", message->rkt ? library->topic_name(message->rkt) : NULL,
                                (int)message->partition, error);
        if (!one || PyList_Append(all, one) < 0) Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

static PyObject *columns(Call *call, int headers) {
    if (sorted(call, headers) < 0 || filled(call, headers) < 0) return NULL;
    PyObject *runs = runs_of(call), *errors = errors_of(call), *rests = rests_of(call);
    if (runs && errors && rests)
        return Py_BuildValue("NNLN", runs, errors, (long long)call->held, rests);
    Py_XDECREF(runs);
    Py_XDECREF(errors);
    Py_XDECREF(rests);
    return NULL;
}

static void freed(Call *call) {
    const Library *library = call->self->library;
    for (int i = 0; i < call->count; i++) {
        Run *run = &call->runs[i];
        PyObject *owned[] = {run->keys,    run->values, run->times,
                             run->offsets, run->heads,  run->unreadable};
        for (size_t j = 0; j < sizeof owned / sizeof *owned; j++) Py_XDECREF(owned[j]);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < call->got; i++) library->message_destroy(call->messages[i]);
    Py_END_ALLOW_THREADS
    free(call->runs);
    free(call->run_of);
    free(call->messages);
}

/* Waits for all that may come; if idle_ms is more than timeout_ms, so long for the first. */
static int fetched(Call *call, size_t most, int timeout_ms, int idle_ms) {
    Client *self = call->self;
    size_t first = idle_ms > timeout_ms ? 1 : most;
    ssize_t got = self->library->consume_batch_queue(
        self->queue, idle_ms > timeout_ms ? idle_ms : timeout_ms, call->messages, first);
    if (got < 0) return -1;
    call->got = got;
    if (got == 0 || first == most) return 0;
    got = self->library->consume_batch_queue(self->queue, timeout_ms, call->messages + call->got,
                                             most - first);
    if (got < 0) return call->got ? 0 : -1;
    call->got += got;
    return 0;
}

PyObject *client_consume(PyObject *raw, PyObject *arguments) {
    Client *self = (Client *)raw;
    Py_ssize_t most;
    int timeout_ms, idle_ms, headers;
    long long most_held, header_bytes;
    if (!PyArg_ParseTuple(arguments, "niipLL", &most, &timeout_ms, &idle_ms, &headers, &most_held,
                          &header_bytes))
        return NULL;
    if (most < 1 || most > 1000000 || !self->queue) {
        PyErr_SetString(PyExc_ValueError, "consume takes 1 to 1,000,000 records of a consumer");
        return NULL;
    }
    if (client_enter(self) < 0) return NULL;
    Call call = {.self = self, .most_held = most_held, .header_bytes = header_bytes};
    call.messages = malloc((size_t)most * sizeof(*call.messages));
    call.run_of = malloc((size_t)most * sizeof(int));
    PyObject *result = NULL;
    int bad;
    if (!call.messages || !call.run_of) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS
        bad = fetched(&call, (size_t)most, timeout_ms, idle_ms);
        Py_END_ALLOW_THREADS
        if (bad) {
            raise_code(self->state, self->library->last_error(), NULL);
        } else {
            result = columns(&call, headers);
        }
    }
    freed(&call);
    return client_done(self, result);
}
