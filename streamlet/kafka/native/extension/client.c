/* The client: one handle of librdkafka, from its settings to its end. */
#include "native.h"

#include <limits.h>
#include <stddef.h>
#include <structmember.h>
#include <unistd.h>

int client_enter(Client *self) {
    atomic_fetch_add(&self->users, 1);
    if (!self->handle || atomic_load(&self->closed)) {
        client_leave(self);
        PyErr_SetString(PyExc_RuntimeError, "the client is closed");
        return -1;
    }
    return 0;
}

/* The handle goes with the last who uses it, once it is closed. */
void client_leave(Client *self) {
    if (atomic_fetch_sub(&self->users, 1) != 1 || !atomic_load(&self->closed)) return;
    if (atomic_exchange(&self->freed, 1) || !self->handle) return;
    if (getpid() != self->process) return; /* its threads did not come along */
    Py_BEGIN_ALLOW_THREADS
    if (self->queue) {
        self->library->consumer_close(self->handle);
        self->library->queue_destroy(self->queue);
    }
    self->library->destroy(self->handle);
    Py_END_ALLOW_THREADS
}

/* The end of a call, also of one that failed: Python hears what was noted, and what it raises is what
 * the call raises. */
PyObject *client_done(Client *self, PyObject *result) {
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    client_leave(self);
    if (notes_heard(self) < 0) {
        Py_CLEAR(result);
        Py_XDECREF(kind);
        Py_XDECREF(error);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(kind, error, trace);
    }
    return result;
}

/* A number of Python's as one of C's; below 0 and with an exception where it does not fit. */
int int_of(PyObject *number, int *found) {
    long long value = PyLong_AsLongLong(number);
    if (value == -1 && PyErr_Occurred()) return -1;
    if (value < INT_MIN || value > INT_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a number does not fit into 32 bits");
        return -1;
    }
    *found = (int)value;
    return 0;
}

static int set_all(Client *self, rd_kafka_conf_t *conf, PyObject *settings) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    char why[512];
    while (PyDict_Next(settings, &position, &key, &value)) {
        PyObject *name = PyUnicode_AsUTF8String(key);
        PyObject *text = name ? PyUnicode_AsUTF8String(value) : NULL;
        int bad = !text;
        if (text && self->library->conf_set(conf, PyBytes_AsString(name), PyBytes_AsString(text),
                                            why, sizeof why) != RD_CONF_OK) {
            raise_code(self->state, RD_ERR_INVALID_ARG, why);
            bad = 1;
        }
        Py_XDECREF(name);
        Py_XDECREF(text);
        if (bad) return -1;
    }
    return 0;
}

static int opened(Client *self, int kind, PyObject *settings) {
    const Library *library = self->library;
    char why[512];
    rd_kafka_conf_t *conf = library->conf_new();
    if (set_all(self, conf, settings) < 0) {
        library->conf_destroy(conf);
        return -1;
    }
    notes_listen(library, conf, kind);
    library->conf_set_opaque(conf, self);
    rd_kafka_t *handle;
    Py_BEGIN_ALLOW_THREADS
    handle = library->new(kind, conf, why, sizeof why);
    Py_END_ALLOW_THREADS
    if (!handle) {
        raise_code(self->state, library->last_error(), why);
        library->conf_destroy(conf);
        return -1;
    }
    library->set_log_queue(handle, NULL); /* to the queue that is polled */
    if (kind == RD_CONSUMER) {
        library->poll_set_consumer(handle);
        self->queue = library->queue_get_consumer(handle);
    }
    self->handle = handle;
    return 0;
}

static PyObject *client_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
    int kind;
    PyObject *settings, *hear;
    if (named && PyDict_Size(named)) {
        PyErr_SetString(PyExc_TypeError, "Client takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "iO!O", &kind, &PyDict_Type, &settings, &hear)) return NULL;
    State *state = PyType_GetModuleState(type);
    if (!state) return NULL;
    if (!state->loaded) {
        PyErr_SetString(PyExc_RuntimeError, "load() was not called");
        return NULL;
    }
    if (kind != RD_PRODUCER && kind != RD_CONSUMER) {
        PyErr_SetString(PyExc_ValueError, "a client is a producer (0) or a consumer (1)");
        return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Client *self = (Client *)allocate(type, 0);
    if (!self) return NULL;
    self->module = Py_NewRef(PyType_GetModule(type));
    self->state = state;
    self->library = &state->library;
    self->process = getpid();
    self->hear = Py_NewRef(hear);
    if (opened(self, kind, settings) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *client_name(PyObject *raw, PyObject *nothing) {
    (void)nothing;
    Client *self = (Client *)raw;
    if (client_enter(self) < 0) return NULL;
    const char *text = self->library->name(self->handle); /* cut, maybe within a letter */
    PyObject *name = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    client_leave(self);
    return name;
}

static PyObject *client_close(PyObject *raw, PyObject *nothing) {
    (void)nothing;
    Client *self = (Client *)raw;
    atomic_fetch_add(&self->users, 1);
    atomic_store(&self->closed, 1);
    return client_done(self, Py_NewRef(Py_None));
}

static int client_traverse(PyObject *raw, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(raw));
    Py_VISIT(((Client *)raw)->module);
    Py_VISIT(((Client *)raw)->hear);
    return 0;
}

static int client_clear(PyObject *raw) {
    Py_CLEAR(((Client *)raw)->hear);
    return 0;
}

static void client_free(PyObject *raw) {
    Client *self = (Client *)raw;
    PyTypeObject *type = Py_TYPE(raw);
    PyObject *kind, *value, *trace;
    PyObject_GC_UnTrack(raw);
    PyErr_Fetch(&kind, &value, &trace);
    if (self->weak) PyObject_ClearWeakRefs(raw);
    atomic_fetch_add(&self->users, 1);
    atomic_store(&self->closed, 1);
    client_leave(self);
    notes_free(self);
    Py_CLEAR(self->hear);
    PyObject *module = self->module;
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(raw);
    Py_DECREF(type);
    Py_XDECREF(module);
    PyErr_Restore(kind, value, trace);
}

static PyMethodDef methods[] = {
    {"close", client_close, METH_NOARGS, "Free the handle when no call is under way any more."},
    {"name", client_name, METH_NOARGS, "What librdkafka calls it."},
    {"look_up", client_look_up, METH_VARARGS, "look_up(topic, timeout_ms): ask where it lies."},
    {"incremental_assign", client_incremental_assign, METH_O, "Read [(topic, partition, offset)]."},
    {"incremental_unassign", client_incremental_unassign, METH_O, "Read them no further."},
    {"pause", client_pause, METH_O, "Fetch no more of them."},
    {"resume", client_resume, METH_O, "Fetch them again."},
    {"position", client_position, METH_O, "The next offset of each; below 0: it has none."},
    {"watermarks", client_watermarks, METH_VARARGS, "watermarks(topic, partition): low, high."},
    {"consume", client_consume, METH_VARARGS,
     "consume(most, timeout_ms, idle_ms, headers, most_held, header_bytes): runs of partitions in "
     "columns, errors, bytes of headers, and where records did not fit."},
    {"produce", client_produce, METH_VARARGS,
     "produce(topic, keys, values, times, partitions, headers, first, end): the place of the first "
     "record that is not queued, and why."},
    {"poll", client_poll, METH_O, "poll(timeout_ms): hear what there is."},
    {"flush", client_flush, METH_O, "flush(timeout_ms): how many are still queued then."},
    {"purge", client_purge, METH_O, "purge(wait): drop what is queued or in flight."},
    {"queued", client_queued, METH_NOARGS, "How many records and events wait."},
    {"init_transactions", client_init_transactions, METH_O, "Have an epoch in timeout_ms."},
    {"begin_transaction", client_begin_transaction, METH_NOARGS, "Begin one."},
    {"send_offsets", client_send_offsets, METH_VARARGS,
     "send_offsets([(topic, partition, offset, text)], group, generation, member, instance, "
     "timeout_ms): add positions to the transaction."},
    {"commit_transaction", client_commit_transaction, METH_O, "Commit in timeout_ms."},
    {"abort_transaction", client_abort_transaction, METH_O, "Abort in timeout_ms."},
    {"set_token", client_set_token, METH_VARARGS,
     "set_token(text, expires_ms, principal, (name, value, ...)): log in with it from now on."},
    {"token_failed", client_token_failed, METH_O, "token_failed(reason): there is none."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Client, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Client(kind, settings, hear): a handle of librdkafka."},
    {Py_tp_new, client_new},
    {Py_tp_dealloc, client_free},
    {Py_tp_traverse, client_traverse},
    {Py_tp_clear, client_clear},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec client_spec = {
    .name = "streamlet.kafka.native._native.Client",
    .basicsize = sizeof(Client),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
