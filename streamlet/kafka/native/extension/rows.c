/* Passes over rows of stores: their keys, values and times, in columns as those of columns.c. The
 * dicts are a store's own, of exactly this type; code of keys and of old values may run here. */
#include "native.h"

/* Puts rows into a dict; with `zero` copies of numbers, which are their sums with it. */
static PyObject *put_rows(PyObject *arguments, PyObject *zero) {
    PyObject *rows, *keys, *values;
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyDict_Type, &rows, &PyList_Type, &keys,
                          &PyList_Type, &values))
        return NULL;
    if (!is_beside(keys, values)) return NULL;
    Py_ssize_t length = PyList_Size(keys);
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
    if (!is_beside(keys, values)) return NULL;
    Py_ssize_t length = PyList_Size(keys);
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

/* The time at a place; below 0 with an exception. */
static int time_at(PyObject *times, Py_ssize_t at, int64_t *time) {
    PyObject *entry = list_entry(times, at);
    int bad = int64_of(entry, time);
    Py_XDECREF(entry);
    return bad;
}

PyObject *highest_time(PyObject *module, PyObject *times) {
    (void)module;
    if (!PyList_Check(times) || !PyList_Size(times)) {
        PyErr_SetString(PyExc_ValueError, "there is one time at least, in a list");
        return NULL;
    }
    int64_t highest = INT64_MIN;
    Py_ssize_t length = PyList_Size(times);
    for (Py_ssize_t at = 0; at < length; at++) {
        int64_t time;
        if (time_at(times, at, &time) < 0) return NULL;
        highest = time > highest ? time : highest;
    }
    return PyLong_FromLongLong(highest);
}

PyObject *late_places(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *times;
    long long latest;
    if (!PyArg_ParseTuple(arguments, "O!L", &PyList_Type, &times, &latest)) return NULL;
    Py_ssize_t length = PyList_Size(times);
    PyObject *out = PyList_New(0);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        int64_t time;
        if (time_at(times, at, &time) < 0) {
            Py_CLEAR(out);
        } else if (time >= latest) {
            latest = time;
        } else {
            PyObject *place = PyLong_FromSsize_t(at);
            if (!place || PyList_Append(out, place) < 0) Py_CLEAR(out);
            Py_XDECREF(place);
        }
    }
    return out;
}

PyObject *later_times(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *times, *others;
    if (!two_columns(arguments, &times, &others)) return NULL;
    Py_ssize_t length = PyList_Size(times);
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

PyObject *moved_times(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *times;
    long long by;
    if (!PyArg_ParseTuple(arguments, "O!L", &PyList_Type, &times, &by)) return NULL;
    Py_ssize_t length = PyList_Size(times);
    PyObject *out = PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *made = NULL;
        int64_t time;
        if (time_at(times, at, &time) < 0) {
            Py_CLEAR(out);
            break;
        }
        if (by > 0 && time > INT64_MAX - by)
            PyErr_SetString(PyExc_OverflowError, "a time is too late");
        else /* the sum of two negative ones may be below all numbers */
            made = PyLong_FromLongLong(time < 0 && by < 0 ? 0 : time + by < 0 ? 0 : time + by);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    return out;
}

/* Eight bytes of a time and a number, the most significant first, and a value behind them. */
static PyObject *timed(PyObject *value, PyObject *entry, uint64_t plus) {
    char *data;
    Py_ssize_t length;
    if (value == Py_None) return Py_NewRef(value);
    int64_t time;
    if (int64_of(entry, &time) < 0 || PyBytes_AsStringAndSize(value, &data, &length) < 0)
        return NULL;
    uint64_t sum = (uint64_t)time + plus;
    if (time < 0 ? -(uint64_t)time > plus : sum < plus) {
        PyErr_SetString(PyExc_OverflowError, "a time has no eight bytes");
        return NULL;
    }
    PyObject *made = PyBytes_FromStringAndSize(NULL, 8 + length);
    char *to = made ? PyBytes_AsString(made) : NULL;
    if (to) {
        put_number(to, sum, 8);
        memcpy(to + 8, data, (size_t)length);
    }
    return made;
}

PyObject *timed_values(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *values, *times;
    unsigned long long plus;
    if (!PyArg_ParseTuple(arguments, "O!O!K", &PyList_Type, &values, &PyList_Type, &times, &plus))
        return NULL;
    if (!is_beside(values, times)) return NULL;
    Py_ssize_t length = PyList_Size(values);
    PyObject *out = PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *value = list_entry(values, at), *time = value ? list_entry(times, at) : NULL;
        PyObject *made = time ? timed(value, time, plus) : NULL;
        Py_XDECREF(value);
        Py_XDECREF(time);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    return out;
}
