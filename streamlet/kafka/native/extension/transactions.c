/* Transactions of a producer. */
#include "native.h"

typedef rd_kafka_error_t *timed(rd_kafka_t *, int);

static PyObject *ended(Client *self, rd_kafka_error_t *error) {
    return client_done(self, error ? raise_error(self->state, error) : Py_NewRef(Py_None));
}

static PyObject *in_time(Client *self, PyObject *timeout_ms, timed *call) {
    int milliseconds;
    if (int_of(timeout_ms, &milliseconds) < 0 || client_enter(self) < 0) return NULL;
    rd_kafka_error_t *error;
    Py_BEGIN_ALLOW_THREADS
    error = call(self->handle, milliseconds);
    Py_END_ALLOW_THREADS
    return ended(self, error);
}

PyObject *client_init_transactions(PyObject *self, PyObject *timeout_ms) {
    return in_time((Client *)self, timeout_ms, ((Client *)self)->library->init_transactions);
}

PyObject *client_commit_transaction(PyObject *self, PyObject *timeout_ms) {
    return in_time((Client *)self, timeout_ms, ((Client *)self)->library->commit_transaction);
}

PyObject *client_abort_transaction(PyObject *self, PyObject *timeout_ms) {
    return in_time((Client *)self, timeout_ms, ((Client *)self)->library->abort_transaction);
}

PyObject *client_begin_transaction(PyObject *raw, PyObject *nothing) {
    (void)nothing;
    Client *self = (Client *)raw;
    if (client_enter(self) < 0) return NULL;
    rd_kafka_error_t *error;
    Py_BEGIN_ALLOW_THREADS
    error = self->library->begin_transaction(self->handle);
    Py_END_ALLOW_THREADS
    return ended(self, error);
}

/* Positions with the texts beside them, out of [(topic, partition, offset, text)]. */
static rd_kafka_topic_partition_list_t *positions(const Library *library, PyObject *all) {
    Py_ssize_t count = PyTuple_Size(all);
    rd_kafka_topic_partition_list_t *list = library->topic_partition_list_new((int)count);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *one = PyTuple_GetItem(all, i), *topic, *text;
        int partition;
        long long offset;
        PyObject *name = NULL, *data = NULL;
        char *copy = NULL;
        if (!PyTuple_Check(one))
            PyErr_SetString(PyExc_TypeError, "a position is (topic, partition, offset, text)");
        else if (PyArg_ParseTuple(one, "UiLU", &topic, &partition, &offset, &text) &&
                 (name = PyUnicode_AsUTF8String(topic)) && (data = PyUnicode_AsUTF8String(text)))
            copy = strdup(PyBytes_AsString(data)); /* librdkafka frees it with the list */
        if (copy) {
            rd_kafka_topic_partition_t *added =
                library->topic_partition_list_add(list, PyBytes_AsString(name), partition);
            added->offset = offset;
            added->metadata = copy;
            added->metadata_size = strlen(copy);
        } else if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        Py_XDECREF(name);
        Py_XDECREF(data);
        if (!copy) {
            library->topic_partition_list_destroy(list);
            return NULL;
        }
    }
    return list;
}

PyObject *client_send_offsets(PyObject *raw, PyObject *arguments) {
    Client *self = (Client *)raw;
    const Library *library = self->library;
    PyObject *offsets;
    const char *group_id, *member, *instance;
    int generation, timeout_ms;
    if (!PyArg_ParseTuple(arguments, "O!siszi", &PyTuple_Type, &offsets, &group_id, &generation,
                          &member, &instance, &timeout_ms))
        return NULL;
    rd_kafka_topic_partition_list_t *list = positions(library, offsets);
    if (!list) return NULL;
    if (client_enter(self) < 0) {
        library->topic_partition_list_destroy(list);
        return NULL;
    }
    rd_kafka_error_t *error;
    Py_BEGIN_ALLOW_THREADS
    rd_kafka_group_t *group =
        library->consumer_group_metadata_new_with_genid(group_id, generation, member, instance);
    error = library->send_offsets_to_transaction(self->handle, list, group, timeout_ms);
    library->consumer_group_metadata_destroy(group);
    Py_END_ALLOW_THREADS
    library->topic_partition_list_destroy(list);
    return ended(self, error);
}
