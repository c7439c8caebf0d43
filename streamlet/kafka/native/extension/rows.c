/* Passes over rows of stores: their keys, values and times, in columns as those of columns.c. The
 * dicts are a store's own, of exactly this type; code of keys and of old values may run here. */
#include "native.h"

/* Puts rows into a dict; with `zero` copies of numbers, which are their sums with it. */
static PyObject *put_rows(PyObject *arguments, PyObject *zero) {
    PyObject *rows, *keys, *values;
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyDict_Type, &rows, &PyList_Type, &keys,
                          &PyList_Type, &values))
        return NULL;
    Py_ssize_t length = PyList_Size(keys);
    if (PyList_Size(values) != length) {
        PyErr_SetString(PyExc_ValueError, "columns are of different lengths");
        return NULL;
    }
    int bad = 0;
    for (Py_ssize_t at = 0; !bad && at < length; at++) {
        PyObject *key = list_entry(keys, at), *value = key ? list_entry(values, at) : NULL;
        if (value && zero) {
            PyObject *number = value;
            value = PyNumber_Add(number, zero);
            Py_DECREF(number);
        }
        bad = !value || PyDict_SetItem(rows, key, value) < 0;
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return bad ? NULL : Py_NewRef(Py_None);
}

PyObject *put_values(PyObject *module, PyObject *arguments) {
    (void)module;
    return put_rows(arguments, NULL);
}

PyObject *put_times(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *zero = PyLong_FromLong(0);
    PyObject *done = zero ? put_rows(arguments, zero) : NULL;
    Py_XDECREF(zero);
    return done;
}

PyObject *swap_values(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *rows, *keys, *values;
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyDict_Type, &rows, &PyList_Type, &keys,
                          &PyList_Type, &values))
        return NULL;
    Py_ssize_t length = PyList_Size(keys);
    if (PyList_Size(values) != length) {
        PyErr_SetString(PyExc_ValueError, "columns are of different lengths");
        return NULL;
    }
    PyObject *out = PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *key = list_entry(keys, at), *value = key ? list_entry(values, at) : NULL;
        PyObject *before = value ? Py_XNewRef(PyDict_GetItemWithError(rows, key)) : NULL;
        if (value && !before && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
        int bad = !before || PyDict_SetItem(rows, key, value) < 0;
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (bad) Py_XDECREF(before);
        if (bad || PyList_SetItem(out, at, before) < 0) Py_CLEAR(out);
    }
    return out;
}

PyObject *later_times(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *times, *others;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyList_Type, &times, &PyList_Type, &others))
        return NULL;
    Py_ssize_t length = PyList_Size(times);
    if (PyList_Size(others) != length) {
        PyErr_SetString(PyExc_ValueError, "columns are of different lengths");
        return NULL;
    }
    PyObject *out = PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *time = list_entry(times, at), *other = time ? list_entry(others, at) : NULL;
        int later = other ? PyObject_RichCompareBool(other, time, Py_GT) : -1;
        PyObject *found = later < 0 ? NULL : Py_NewRef(later ? other : time);
        Py_XDECREF(time);
        Py_XDECREF(other);
        if (!found || PyList_SetItem(out, at, found) < 0) Py_CLEAR(out);
    }
    return out;
}
