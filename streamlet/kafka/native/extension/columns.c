/* Passes over columns, which are lists that do not change meanwhile. Each takes entries of exactly
 * one type and calls no code of theirs; another type is a TypeError. streamlet/columnwise.py says
 * what they do, and does the same where this extension is not built. */
#include "native.h"

typedef PyObject *each(PyObject *entry);

/* The entry at a place, held; NULL with an exception unless it is exactly of the type. */
static PyObject *entry_of(PyObject *column, Py_ssize_t at, PyTypeObject *type) {
    PyObject *entry = list_entry(column, at);
    if (entry && Py_TYPE(entry) != type) {
        PyErr_Format(PyExc_TypeError, "entry %zd is of another type", at);
        Py_CLEAR(entry);
    }
    return entry;
}

static Py_ssize_t length_of(PyObject *column) {
    Py_ssize_t length = PyList_Size(column); /* -1 with an exception, if it is no list */
    if (length < 0 && PyErr_ExceptionMatches(PyExc_SystemError))
        PyErr_SetString(PyExc_TypeError, "a column is a list");
    return length;
}

static PyObject *mapped(PyObject *column, PyTypeObject *type, each *function) {
    Py_ssize_t length = length_of(column);
    PyObject *out = length < 0 ? NULL : PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *entry = entry_of(column, at, type);
        PyObject *made = entry ? function(entry) : NULL;
        Py_XDECREF(entry);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    return out;
}

static PyObject *text_of(PyObject *raw) {
    char *data;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(raw, &data, &length) < 0) return NULL;
    return PyUnicode_DecodeUTF8(data, length, NULL);
}

static PyObject *eight(uint64_t bits) {
    char data[8];
    put_number(data, bits, 8);
    return PyBytes_FromStringAndSize(data, 8);
}

static int eight_of(PyObject *raw, uint64_t *bits) {
    char *data;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(raw, &data, &length) < 0) return -1;
    if (length != 8) {
        PyErr_SetString(PyExc_ValueError, "an entry is not 8 bytes long");
        return -1;
    }
    *bits = 0;
    for (int i = 0; i < 8; i++) *bits = *bits << 8 | (unsigned char)data[i];
    return 0;
}

static PyObject *int_packed(PyObject *number) {
    int64_t value;
    return int64_of(number, &value) < 0 ? NULL : eight((uint64_t)value);
}

static PyObject *int_unpacked(PyObject *raw) {
    uint64_t bits;
    return eight_of(raw, &bits) < 0 ? NULL : PyLong_FromLongLong((long long)bits);
}

static PyObject *float_packed(PyObject *number) {
    double value = PyFloat_AsDouble(number);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return eight(bits);
}

static PyObject *float_unpacked(PyObject *raw) {
    uint64_t bits;
    double value;
    if (eight_of(raw, &bits) < 0) return NULL;
    memcpy(&value, &bits, sizeof value);
    return PyFloat_FromDouble(value);
}

PyObject *encode_texts(PyObject *module, PyObject *column) {
    (void)module;
    return mapped(column, &PyUnicode_Type, PyUnicode_AsUTF8String);
}

PyObject *decode_texts(PyObject *module, PyObject *column) {
    (void)module;
    return mapped(column, &PyBytes_Type, text_of);
}

PyObject *pack_ints(PyObject *module, PyObject *column) {
    (void)module;
    return mapped(column, &PyLong_Type, int_packed);
}

PyObject *unpack_ints(PyObject *module, PyObject *column) {
    (void)module;
    return mapped(column, &PyBytes_Type, int_unpacked);
}

PyObject *pack_floats(PyObject *module, PyObject *column) {
    (void)module;
    return mapped(column, &PyFloat_Type, float_packed);
}

PyObject *unpack_floats(PyObject *module, PyObject *column) {
    (void)module;
    return mapped(column, &PyBytes_Type, float_unpacked);
}

PyObject *all_of(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *column, *type;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyList_Type, &column, &PyType_Type, &type))
        return NULL;
    Py_ssize_t length = PyList_Size(column);
    for (Py_ssize_t at = 0; at < length; at++) {
        PyObject *entry = list_entry(column, at);
        if (!entry) return NULL;
        int same = (PyObject *)Py_TYPE(entry) == type;
        Py_DECREF(entry);
        if (!same) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

static uint32_t murmur2(const unsigned char *data, size_t length) {
    const uint32_t m = 0x5BD1E995;
    uint32_t h = 0x9747B28C ^ (uint32_t)length;
    size_t left = length & 3, whole = length - left;
    for (size_t i = 0; i < whole; i += 4) {
        uint32_t k = (uint32_t)data[i] | (uint32_t)data[i + 1] << 8 | (uint32_t)data[i + 2] << 16 |
                     (uint32_t)data[i + 3] << 24;
        k *= m;
        k ^= k >> 24;
        h = h * m ^ k * m;
    }
    if (left) {
        for (size_t i = 0; i < left; i++) h ^= (uint32_t)data[whole + i] << 8 * i;
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    return h ^ h >> 15;
}

PyObject *partitions_of(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *column;
    unsigned int count;
    if (!PyArg_ParseTuple(arguments, "O!I", &PyList_Type, &column, &count)) return NULL;
    if (!count) {
        PyErr_SetString(PyExc_ValueError, "a topic has at least one partition");
        return NULL;
    }
    Py_ssize_t length = PyList_Size(column);
    PyObject *out = PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *entry = entry_of(column, at, &PyBytes_Type), *made = NULL;
        char *data;
        Py_ssize_t size;
        if (entry && !PyBytes_AsStringAndSize(entry, &data, &size)) {
            uint32_t hash = murmur2((unsigned char *)data, (size_t)size) & 0x7FFFFFFF;
            made = PyLong_FromUnsignedLong(hash % count);
        }
        Py_XDECREF(entry);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    return out;
}
