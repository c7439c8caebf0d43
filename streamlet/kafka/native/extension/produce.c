/* Records from columns into the queue of a producer. */
#include "native.h"

/* The columns of some records, as tuples of our own that no other thread changes. */
typedef struct {
    PyObject *keys, *values, *times, *partitions, *headers;
    int partition; /* of all of them, where partitions is NULL */
} Columns;

static PyObject *part_of(PyObject *column, Py_ssize_t first, Py_ssize_t end, int *bad) {
    if (column == Py_None) return NULL;
    Py_ssize_t length = PySequence_Size(column);
    PyObject *part = NULL;
    if (length >= 0)
        part = !first && length == end ? Py_NewRef(column) : PySequence_GetSlice(column, first, end);
    PyObject *all = part ? PySequence_Tuple(part) : NULL;
    Py_XDECREF(part);
    if (all && PyTuple_Size(all) != end - first) {
        PyErr_SetString(PyExc_ValueError, "columns are of different lengths");
        Py_CLEAR(all);
    }
    *bad |= !all;
    return all;
}

static void columns_free(Columns *columns) {
    Py_XDECREF(columns->keys);
    Py_XDECREF(columns->values);
    Py_XDECREF(columns->times);
    Py_XDECREF(columns->partitions);
    Py_XDECREF(columns->headers);
}

/* The bytes of a key or value, or NULL for None. */
static int bytes_of(PyObject *one, char **data, Py_ssize_t *length) {
    *data = NULL;
    *length = 0;
    return one == Py_None ? 0 : PyBytes_AsStringAndSize(one, data, length);
}

static int header_added(const Library *library, rd_kafka_headers_t *all, PyObject *pair) {
    PyObject *name, *value;
    char *text, *data;
    Py_ssize_t length, size;
    if (!PyTuple_Check(pair)) {
        PyErr_SetString(PyExc_TypeError, "a header is a tuple (name, bytes or None)");
        return -1;
    }
    if (!PyArg_ParseTuple(pair, "UO", &name, &value)) return -1;
    PyObject *encoded = PyUnicode_AsUTF8String(name);
    PyObject *held = PyUnicode_Check(value) ? PyUnicode_AsUTF8String(value) : Py_NewRef(value);
    int bad = !encoded || !held || PyBytes_AsStringAndSize(encoded, &text, &length) < 0 ||
              bytes_of(held, &data, &size) < 0;
    if (!bad) library->header_add(all, text, length, data, size);
    Py_XDECREF(encoded);
    Py_XDECREF(held);
    return bad ? -1 : 0;
}

/* The headers of a record for librdkafka; NULL without any, or with an exception. */
static rd_kafka_headers_t *headers_from(const Library *library, PyObject *pairs) {
    if (pairs == Py_None) return NULL;
    PyObject *all = PySequence_Tuple(pairs);
    if (!all) return NULL;
    Py_ssize_t count = PyTuple_Size(all);
    rd_kafka_headers_t *made = count ? library->headers_new((size_t)count) : NULL;
    for (Py_ssize_t i = 0; made && i < count; i++) {
        if (header_added(library, made, PyTuple_GetItem(all, i)) < 0) {
            library->headers_destroy(made);
            made = NULL;
        }
    }
    Py_DECREF(all);
    return made;
}

/* Queues one record; what librdkafka answers is put into *code. */
static int queued(Client *self, rd_kafka_topic_t *topic, Columns *columns, Py_ssize_t at,
                  int *code) {
    char *key, *value;
    Py_ssize_t key_length, length;
    int64_t time = 0;
    int partition = columns->partition;
    if (bytes_of(PyTuple_GetItem(columns->keys, at), &key, &key_length) < 0 ||
        bytes_of(PyTuple_GetItem(columns->values, at), &value, &length) < 0)
        return -1;
    if (columns->times && int64_of(PyTuple_GetItem(columns->times, at), &time) < 0) return -1;
    if (columns->partitions && int_of(PyTuple_GetItem(columns->partitions, at), &partition) < 0)
        return -1;
    rd_kafka_headers_t *headers = NULL;
    if (columns->headers) {
        headers = headers_from(self->library, PyTuple_GetItem(columns->headers, at));
        if (!headers && PyErr_Occurred()) return -1;
    }
    *code = self->library->producev(
        self->handle, RD_TOPIC_HANDLE, topic, RD_PARTITION, partition, RD_FLAGS, RD_COPY, RD_VALUE,
        value, (size_t)length, RD_KEY, key, (size_t)key_length, RD_TIMESTAMP, time,
        headers ? RD_HEADERS : RD_END, headers, RD_END);
    if (*code && headers) self->library->headers_destroy(headers);
    return 0;
}

PyObject *client_produce(PyObject *raw, PyObject *arguments) {
    Client *self = (Client *)raw;
    const char *name;
    PyObject *keys, *values, *times, *partitions, *headers;
    Py_ssize_t first, end;
    if (!PyArg_ParseTuple(arguments, "sOOOOOnn", &name, &keys, &values, &times, &partitions,
                          &headers, &first, &end))
        return NULL;
    if (first < 0 || end < first) {
        PyErr_SetString(PyExc_ValueError, "a part begins at 0 or later, and ends behind that");
        return NULL;
    }
    Columns columns = {.partition = -1};
    int bad = 0, code = 0;
    if (PyLong_Check(partitions)) {
        bad = int_of(partitions, &columns.partition) < 0;
        partitions = Py_None;
    }
    if (!bad) columns.keys = part_of(keys, first, end, &bad);
    if (!bad) columns.values = part_of(values, first, end, &bad);
    if (!bad) columns.times = part_of(times, first, end, &bad);
    if (!bad) columns.partitions = part_of(partitions, first, end, &bad);
    if (!bad) columns.headers = part_of(headers, first, end, &bad);
    if (!bad && (!columns.keys || !columns.values)) {
        PyErr_SetString(PyExc_TypeError, "keys and values are columns");
        bad = 1;
    }
    if (bad || client_enter(self) < 0) {
        columns_free(&columns);
        return NULL;
    }
    Py_ssize_t at = 0;
    rd_kafka_topic_t *topic = self->library->topic_new(self->handle, name, NULL);
    if (!topic) code = self->library->last_error();
    while (!bad && !code && at < end - first) {
        bad = queued(self, topic, &columns, at, &code) < 0;
        at += !bad && !code;
    }
    if (topic) self->library->topic_destroy(topic);
    columns_free(&columns);
    PyObject *result = bad ? NULL : Py_BuildValue("ni", first + at, code);
    client_leave(self); /* what there is to hear is for poll() */
    return result;
}

static PyObject *waited(Client *self, PyObject *timeout_ms, int (*call)(rd_kafka_t *, int)) {
    int milliseconds, left;
    if (int_of(timeout_ms, &milliseconds) < 0 || client_enter(self) < 0) return NULL;
    Py_BEGIN_ALLOW_THREADS
    call(self->handle, milliseconds);
    left = self->library->outq_len(self->handle);
    Py_END_ALLOW_THREADS
    return client_done(self, PyLong_FromLong(left));
}

PyObject *client_poll(PyObject *self, PyObject *timeout_ms) {
    return waited((Client *)self, timeout_ms, ((Client *)self)->library->poll);
}

PyObject *client_flush(PyObject *self, PyObject *timeout_ms) {
    return waited((Client *)self, timeout_ms, ((Client *)self)->library->flush);
}

PyObject *client_purge(PyObject *raw, PyObject *wait) {
    Client *self = (Client *)raw;
    int blocking = PyObject_IsTrue(wait), code;
    if (blocking < 0 || client_enter(self) < 0) return NULL;
    Py_BEGIN_ALLOW_THREADS
    code = self->library->purge(self->handle, RD_PURGE_QUEUE | RD_PURGE_IN_FLIGHT |
                                                  (blocking ? 0 : RD_PURGE_NO_WAIT));
    Py_END_ALLOW_THREADS
    client_leave(self); /* by any thread: what became of the records is for who polls */
    return code ? raise_code(self->state, code, NULL) : Py_NewRef(Py_None);
}

PyObject *client_queued(PyObject *raw, PyObject *nothing) {
    (void)nothing;
    Client *self = (Client *)raw;
    if (client_enter(self) < 0) return NULL;
    PyObject *count = PyLong_FromLong(self->library->outq_len(self->handle));
    client_leave(self);
    return count;
}
