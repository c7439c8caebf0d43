/* Columns of dicts and what they hold. Only exact types of Python's own are looked into, so no code
 * of an entry is called. A flat dict has texts as keys, and values that cannot change. */
#include "native.h"

#include <math.h>

enum { DEEPEST = 60 };

/* True of a type whose values cannot change. */
static int fixed(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type ||
           value == Py_None || type == &PyBool_Type;
}

static int flat(PyObject *entry) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (Py_TYPE(entry) != &PyDict_Type) return fixed(entry);
    while (PyDict_Next(entry, &at, &key, &value))
        if (Py_TYPE(key) != &PyUnicode_Type || !fixed(value)) return 0;
    return 1;
}

static Py_ssize_t list_size(PyObject *column) {
    if (PyList_Check(column)) return PyList_Size(column);
    PyErr_SetString(PyExc_TypeError, "a column is a list");
    return -1;
}

PyObject *all_flat(PyObject *module, PyObject *column) {
    (void)module;
    Py_ssize_t length = list_size(column);
    if (length < 0) return NULL;
    for (Py_ssize_t at = 0; at < length; at++) {
        PyObject *entry = PyList_GetItem(column, at);
        if (!entry) return NULL;
        if (!flat(entry)) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

PyObject *flat_copies(PyObject *module, PyObject *column) {
    (void)module;
    Py_ssize_t length = list_size(column);
    PyObject *out = length < 0 ? NULL : PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *entry = PyList_GetItem(column, at), *made;
        if (entry && !flat(entry)) {
            Py_DECREF(out);
            Py_RETURN_NONE;
        }
        made = !entry ? NULL
               : Py_TYPE(entry) == &PyDict_Type ? PyDict_Copy(entry)
                                                : Py_NewRef(entry);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    return out;
}

/* True of a scalar that JSON returns as it is; -1 with an exception. */
static int steady(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (value == Py_None || type == &PyBool_Type) return 1;
    if (type == &PyUnicode_Type) {
        Py_ssize_t length;
        if (PyUnicode_AsUTF8AndSize(value, &length)) return 1;
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return -1;
        PyErr_Clear(); /* half of a surrogate pair */
        return 0;
    }
    if (type == &PyLong_Type) {
        int beyond;
        PyLong_AsLongLongAndOverflow(value, &beyond);
        return !beyond;
    }
    return type == &PyFloat_Type && isfinite(PyFloat_AsDouble(value));
}

static PyObject *document_copy(PyObject *value, int depth);

static PyObject *list_copy(PyObject *list, int depth) {
    PyObject *out = PyList_New(0);
    for (Py_ssize_t at = 0; out && at < PyList_Size(list); at++) {
        PyObject *entry = list_entry(list, at);
        PyObject *made = entry ? document_copy(entry, depth) : NULL;
        if (!made || PyList_Append(out, made) < 0) Py_CLEAR(out);
        Py_XDECREF(made);
        Py_XDECREF(entry);
    }
    return out;
}

static PyObject *dict_copy(PyObject *dict, int depth) {
    PyObject *key, *value, *out = PyDict_Copy(dict);
    Py_ssize_t at = 0;
    while (out && PyDict_Next(dict, &at, &key, &value)) {
        if (Py_TYPE(key) != &PyUnicode_Type || steady(key) != 1) Py_CLEAR(out);
        if (!out || steady(value) == 1) continue;
        PyObject *made = PyErr_Occurred() ? NULL : document_copy(value, depth);
        if (!made || PyDict_SetItem(out, key, made) < 0) Py_CLEAR(out);
        Py_XDECREF(made);
    }
    return out;
}

/* A copy that shares no dict or list with the document; NULL without an exception: JSON may return
 * it as another one. */
static PyObject *document_copy(PyObject *value, int depth) {
    PyTypeObject *type = Py_TYPE(value);
    if (depth > DEEPEST) return NULL;
    if (type == &PyDict_Type) return dict_copy(value, depth + 1);
    if (type == &PyList_Type) return list_copy(value, depth + 1);
    return steady(value) == 1 ? Py_NewRef(value) : NULL;
}

PyObject *document_copies(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *column, *type;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyList_Type, &column, &PyType_Type, &type))
        return NULL;
    Py_ssize_t length = PyList_Size(column);
    PyObject *out = PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *entry = list_entry(column, at), *made = NULL;
        if (entry && (entry == Py_None || (PyObject *)Py_TYPE(entry) == type))
            made = document_copy(entry, 0);
        Py_XDECREF(entry);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    if (out || PyErr_Occurred()) return out;
    Py_RETURN_NONE;
}
