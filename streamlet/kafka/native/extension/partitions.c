/* Which partitions a consumer reads, and where it is. */
#include "native.h"

/* A list of librdkafka's out of [(topic, partition, offset)]. */
static rd_kafka_topic_partition_list_t *listed(const Library *library, PyObject *partitions) {
    PyObject *all = PySequence_Tuple(partitions);
    if (!all) return NULL;
    Py_ssize_t count = PyTuple_Size(all);
    rd_kafka_topic_partition_list_t *list = library->topic_partition_list_new((int)count);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *one = PyTuple_GetItem(all, i), *topic;
        int partition;
        long long offset;
        PyObject *name = NULL;
        if (!PyTuple_Check(one)) {
            PyErr_SetString(PyExc_TypeError, "a partition is a tuple (topic, partition, offset)");
        } else if (PyArg_ParseTuple(one, "UiL", &topic, &partition, &offset)) {
            name = PyUnicode_AsUTF8String(topic);
        }
        if (!name) {
            library->topic_partition_list_destroy(list);
            Py_DECREF(all);
            return NULL;
        }
        library->topic_partition_list_add(list, PyBytes_AsString(name), partition)->offset = offset;
        Py_DECREF(name);
    }
    Py_DECREF(all);
    return list;
}

typedef rd_kafka_error_t *assigning(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
typedef int asking(rd_kafka_t *, rd_kafka_topic_partition_list_t *);

static PyObject *assign(Client *self, PyObject *partitions, assigning *call) {
    rd_kafka_topic_partition_list_t *list = listed(self->library, partitions);
    if (!list) return NULL;
    if (client_enter(self) < 0) {
        self->library->topic_partition_list_destroy(list);
        return NULL;
    }
    rd_kafka_error_t *error;
    Py_BEGIN_ALLOW_THREADS
    error = call(self->handle, list);
    Py_END_ALLOW_THREADS
    self->library->topic_partition_list_destroy(list);
    return client_done(self, error ? raise_error(self->state, error) : Py_NewRef(Py_None));
}

PyObject *client_incremental_assign(PyObject *self, PyObject *partitions) {
    return assign((Client *)self, partitions, ((Client *)self)->library->incremental_assign);
}

PyObject *client_incremental_unassign(PyObject *self, PyObject *partitions) {
    return assign((Client *)self, partitions, ((Client *)self)->library->incremental_unassign);
}

static PyObject *offsets_of(const rd_kafka_topic_partition_list_t *list) {
    PyObject *found = PyList_New(list->cnt);
    for (int i = 0; found && i < list->cnt; i++) {
        PyObject *offset = PyLong_FromLongLong(list->elems[i].offset);
        if (!offset || PyList_SetItem(found, i, offset) < 0) Py_CLEAR(found);
    }
    return found;
}

static PyObject *ask(Client *self, PyObject *partitions, asking *call, int offsets) {
    rd_kafka_topic_partition_list_t *list = listed(self->library, partitions);
    if (!list) return NULL;
    if (client_enter(self) < 0) {
        self->library->topic_partition_list_destroy(list);
        return NULL;
    }
    int code;
    PyObject *result;
    Py_BEGIN_ALLOW_THREADS
    code = call(self->handle, list);
    Py_END_ALLOW_THREADS
    if (code)
        result = raise_code(self->state, code, NULL);
    else
        result = offsets ? offsets_of(list) : Py_NewRef(Py_None);
    self->library->topic_partition_list_destroy(list);
    return client_done(self, result);
}

PyObject *client_pause(PyObject *self, PyObject *partitions) {
    return ask((Client *)self, partitions, ((Client *)self)->library->pause_partitions, 0);
}

PyObject *client_resume(PyObject *self, PyObject *partitions) {
    return ask((Client *)self, partitions, ((Client *)self)->library->resume_partitions, 0);
}

PyObject *client_position(PyObject *self, PyObject *partitions) {
    return ask((Client *)self, partitions, ((Client *)self)->library->position, 1);
}

PyObject *client_watermarks(PyObject *raw, PyObject *arguments) {
    Client *self = (Client *)raw;
    const char *topic;
    int partition;
    int64_t low = -1, high = -1;
    if (!PyArg_ParseTuple(arguments, "si", &topic, &partition)) return NULL;
    if (client_enter(self) < 0) return NULL;
    int code =
        self->library->get_watermark_offsets(self->handle, topic, partition, &low, &high);
    PyObject *result = code ? raise_code(self->state, code, NULL)
                            : Py_BuildValue("LL", (long long)low, (long long)high);
    return client_done(self, result);
}

PyObject *client_look_up(PyObject *raw, PyObject *arguments) {
    Client *self = (Client *)raw;
    const Library *library = self->library;
    const char *name;
    int timeout_ms, code;
    if (!PyArg_ParseTuple(arguments, "si", &name, &timeout_ms)) return NULL;
    if (client_enter(self) < 0) return NULL;
    Py_BEGIN_ALLOW_THREADS
    const struct rd_kafka_metadata *found = NULL;
    rd_kafka_topic_t *topic = library->topic_new(self->handle, name, NULL);
    code = topic ? library->metadata(self->handle, 0, topic, &found, timeout_ms)
                 : library->last_error();
    if (found) library->metadata_destroy(found);
    if (topic) library->topic_destroy(topic);
    Py_END_ALLOW_THREADS
    return client_done(self, code ? raise_code(self->state, code, NULL) : Py_NewRef(Py_None));
}
