/* Columns of flat dicts: each has texts as keys, and values that cannot change. Nothing of an entry
 * but its type is looked at, and its own code is not called. */
#include "native.h"

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
