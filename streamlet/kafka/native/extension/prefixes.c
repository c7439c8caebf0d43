/* Prefixes of values: put before a column, told apart in one pass, and cut off. */
#include "native.h"
#include <string.h>

/* A list of our own that no other thread changes. */
static PyObject *listed(PyObject *values) { return PySequence_List(values); }

/* The bytes of a value, none for None. */
static int value_of(PyObject *one, char **data, Py_ssize_t *length) {
    *data = "";
    *length = 0;
    return one == Py_None ? 0 : PyBytes_AsStringAndSize(one, data, length);
}

PyObject *prefixes_packed(PyObject *module, PyObject *arguments) {
    PyObject *given;
    const char *head;
    Py_ssize_t head_length, length;
    unsigned long long first;
    char *data;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#OK", &head, &head_length, &given, &first)) return NULL;
    PyObject *values = listed(given);
    if (!values) return NULL;
    Py_ssize_t count = PyList_Size(values);
    PyObject *result = PyList_New(count);
    for (Py_ssize_t i = 0; result && i < count; i++) {
        PyObject *one = PyList_GetItem(values, i);
        PyObject *packed = NULL;
        if (value_of(one, &data, &length) == 0)
            packed = PyBytes_FromStringAndSize(NULL, head_length + 8 + length);
        if (!packed) {
            Py_CLEAR(result);
            break;
        }
        char *to = PyBytes_AsString(packed);
        unsigned long long sequence = 2 * (first + (unsigned long long)i) + (one == Py_None);
        memcpy(to, head, (size_t)head_length);
        put_number(to + head_length, sequence, 8);
        memcpy(to + head_length + 8, data, (size_t)length);
        PyList_SetItem(result, i, packed);
    }
    Py_DECREF(values);
    return result;
}

/* What is known of values in a row that begin alike. */
typedef struct {
    Py_ssize_t start;
    const char *data; /* of the value before */
    Py_ssize_t length;
    int bears, rising, whole;
} Run;

static int added(PyObject *result, const Run *run, Py_ssize_t end) {
    PyObject *row = Py_BuildValue("(nniii)", run->start, end, run->bears, run->rising, run->whole);
    int bad = !row || PyList_Append(result, row) < 0;
    Py_XDECREF(row);
    return bad ? -1 : 0;
}

static int bears(const char *data, Py_ssize_t length, const char *mark, Py_ssize_t mark_length,
                 Py_ssize_t head) {
    return length >= head && length >= mark_length &&
           memcmp(data, mark, (size_t)mark_length) == 0;
}

static int is_less(const Run *run, const char *data, Py_ssize_t length) {
    Py_ssize_t common = run->length < length ? run->length : length;
    int order = memcmp(run->data, data, (size_t)common);
    return order < 0 || (order == 0 && run->length < length);
}

PyObject *prefixes_runs(PyObject *module, PyObject *arguments) {
    PyObject *given;
    const char *mark;
    Py_ssize_t mark_length, head, prefix, length;
    char *data;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Oy#nn", &given, &mark, &mark_length, &head, &prefix))
        return NULL;
    PyObject *values = listed(given);
    PyObject *result = values ? PyList_New(0) : NULL;
    Py_ssize_t count = values ? PyList_Size(values) : 0;
    Run run = {0};
    for (Py_ssize_t i = 0; result && i < count; i++) {
        if (value_of(PyList_GetItem(values, i), &data, &length) < 0) {
            Py_CLEAR(result);
            break;
        }
        int one = bears(data, length, mark, mark_length, head);
        int same = i && run.bears == one && (!one || memcmp(run.data, data, (size_t)head) == 0);
        if (i && !same && added(result, &run, i) < 0) {
            Py_CLEAR(result);
            break;
        }
        if (same)
            run.rising = run.rising && is_less(&run, data, length);
        else
            run = (Run){.start = i, .bears = one, .rising = 1, .whole = 1};
        run.whole = run.whole && length >= prefix;
        run.data = data;
        run.length = length;
    }
    if (result && count && added(result, &run, count) < 0) Py_CLEAR(result);
    Py_XDECREF(values);
    return result;
}

/* The value behind a prefix; its last bit says that it is None. */
static PyObject *body_of(const char *data, Py_ssize_t length, Py_ssize_t prefix) {
    if (length == prefix && (data[prefix - 1] & 1)) return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize(data + prefix, length - prefix);
}

/* The bodies of values[start:end], put into a list, and their sequences, one behind the other. */
static int cut(PyObject *values, Py_ssize_t start, Py_ssize_t prefix, PyObject *bodies,
               char *sequences) {
    Py_ssize_t count = PyList_Size(bodies), length;
    char *data;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyBytes_AsStringAndSize(PyList_GetItem(values, start + i), &data, &length) < 0)
            return -1;
        if (length < prefix) {
            PyErr_SetString(PyExc_ValueError, "a value is shorter than its prefix");
            return -1;
        }
        memcpy(sequences + 8 * i, data + prefix - 8, 8);
        PyObject *body = body_of(data, length, prefix);
        if (!body || PyList_SetItem(bodies, i, body) < 0) return -1;
    }
    return 0;
}

PyObject *prefixes_cut(PyObject *module, PyObject *arguments) {
    PyObject *given;
    Py_ssize_t start, end, prefix;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Onnn", &given, &start, &end, &prefix)) return NULL;
    PyObject *values = listed(given);
    if (!values) return NULL;
    if (prefix < 8 || start < 0 || end < start || end > PyList_Size(values)) {
        PyErr_SetString(PyExc_ValueError, "there are no such values");
        Py_DECREF(values);
        return NULL;
    }
    PyObject *bodies = PyList_New(end - start), *result = NULL;
    PyObject *sequences = PyBytes_FromStringAndSize(NULL, 8 * (end - start));
    if (bodies && sequences && cut(values, start, prefix, bodies, PyBytes_AsString(sequences)) == 0)
        result = PyTuple_Pack(2, bodies, sequences);
    Py_XDECREF(bodies);
    Py_XDECREF(sequences);
    Py_DECREF(values);
    return result;
}
