/* Counts in the rows of windows, and the bytes of windowed keys. streamlet/state/window_counts.py
 * says what each function does, and does the same where this extension is not built. */
#include "native.h"

/* The columns of the window that was met last, by slot. */
typedef struct {
    int64_t start;
    PyObject *slots, *values; /* the caller's dict of windows holds them */
    Py_buffer times, marks;
    int held;   /* whether there is one */
    int marked; /* whether it has marks */
} Window;

static void window_left(Window *window) {
    if (!window->held) return;
    PyBuffer_Release(&window->times);
    if (window->marked) PyBuffer_Release(&window->marks);
    window->held = 0;
}

/* Takes the columns of the window that begins there; below 0 with an exception. */
static int window_met(Window *window, PyObject *windows, PyObject *start) {
    PyObject *times, *marks;
    int64_t number;
    if (int64_of(start, &number) < 0) return -1;
    if (window->held && window->start == number) return 0;
    window_left(window);
    PyObject *columns = PyDict_GetItemWithError(windows, start);
    if (!columns) {
        if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, start);
        return -1;
    }
    if (!PyTuple_Check(columns)) {
        PyErr_SetString(PyExc_TypeError, "a window is a tuple of its columns");
        return -1;
    }
    if (!PyArg_ParseTuple(columns, "O!O!OO", &PyDict_Type, &window->slots, &PyList_Type,
                          &window->values, &times, &marks) ||
        PyObject_GetBuffer(times, &window->times, PyBUF_WRITABLE) < 0)
        return -1;
    window->marked = marks != Py_None;
    if (window->marked && PyObject_GetBuffer(marks, &window->marks, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&window->times);
        return -1;
    }
    window->start = number;
    window->held = 1;
    return 0;
}

/* The slot of a key, 1; 0: it has none; below 0 with an exception. */
static int slot_of(const Window *window, PyObject *key, Py_ssize_t *slot) {
    PyObject *found = PyDict_GetItemWithError(window->slots, key);
    if (!found) return PyErr_Occurred() ? -1 : 0;
    *slot = PyLong_AsSsize_t(found);
    if (*slot == -1 && PyErr_Occurred()) return -1;
    if (*slot < 0 || *slot >= PyList_Size(window->values) ||
        *slot >= window->times.len / (Py_ssize_t)sizeof(int64_t) ||
        (window->marked && *slot >= window->marks.len)) {
        PyErr_SetString(PyExc_ValueError, "a slot lies behind its window's columns");
        return -1;
    }
    return 1;
}

/* Counts a record of this time, and appends the count and the later time; below 0 with an exception. */
static int counted(Window *window, Py_ssize_t slot, PyObject *number, PyObject *counts,
                   PyObject *latest) {
    int64_t *time = (int64_t *)window->times.buf + slot, its, count = 0;
    PyObject *old = list_entry(window->values, slot);
    int bad = !old || (old != Py_None && int64_of(old, &count) < 0) || int64_of(number, &its) < 0;
    Py_XDECREF(old);
    if (bad) return -1;
    if (count == INT64_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a count has no eight bytes");
        return -1;
    }
    PyObject *made = PyLong_FromLongLong(count + 1), *shown = NULL;
    if (made && count && *time > its)
        shown = PyLong_FromLongLong(*time);
    else if (made)
        shown = Py_NewRef(number);
    bad = !shown || PyList_Append(counts, made) < 0 || PyList_Append(latest, shown) < 0;
    if (!bad && !(count && *time > its)) *time = its;
    if (!bad) bad = PyList_SetItem(window->values, slot, Py_NewRef(made)) < 0;
    Py_XDECREF(made);
    Py_XDECREF(shown);
    return bad ? -1 : 0;
}

/* Marks the row of a slot, and notes the record if it was not marked. */
static int noted(Window *window, Py_ssize_t slot, Py_ssize_t at, PyObject *changed) {
    char *marks = window->marked ? window->marks.buf : NULL;
    if (marks && marks[slot]) return 0;
    if (marks) marks[slot] = 1;
    PyObject *index = PyLong_FromSsize_t(at);
    int bad = !index || PyList_Append(changed, index) < 0;
    Py_XDECREF(index);
    return bad ? -1 : 0;
}

PyObject *count_windows(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *windows, *starts, *keys, *times, *counts, *latest;
    Py_ssize_t at;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!nO!O!", &PyDict_Type, &windows, &PyList_Type, &starts,
                          &PyList_Type, &keys, &PyList_Type, &times, &at, &PyList_Type, &counts,
                          &PyList_Type, &latest))
        return NULL;
    if (!is_beside(starts, keys) || !is_beside(starts, times)) return NULL;
    PyObject *changed = PyList_New(0);
    Window window = {0};
    int more = changed && at >= 0 ? 1 : -1;
    if (at < 0) PyErr_SetString(PyExc_ValueError, "records have an index");
    for (Py_ssize_t length = PyList_Size(starts); more > 0 && at < length; at += more > 0) {
        PyObject *start = list_entry(starts, at), *key = list_entry(keys, at);
        PyObject *time = list_entry(times, at);
        Py_ssize_t slot;
        more = start && key && time ? window_met(&window, windows, start) : -1;
        if (more == 0) more = slot_of(&window, key, &slot);
        if (more > 0 && (counted(&window, slot, time, counts, latest) < 0 ||
                         noted(&window, slot, at, changed) < 0))
            more = -1;
        Py_XDECREF(start);
        Py_XDECREF(key);
        Py_XDECREF(time);
    }
    window_left(&window);
    if (more >= 0) return Py_BuildValue("nN", at, changed);
    Py_XDECREF(changed);
    return NULL;
}

PyObject *window_keys(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *heads, *windows;
    if (!two_columns(arguments, &heads, &windows)) return NULL;
    Py_ssize_t length = PyList_Size(heads);
    PyObject *out = PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *head = list_entry(heads, at), *window = list_entry(windows, at), *made = NULL;
        char *data;
        Py_ssize_t bytes;
        int64_t start;
        if (window && !PyTuple_Check(window))
            PyErr_SetString(PyExc_TypeError, "a window is a tuple of a key and its times");
        else if (head && window && int64_of(PyTuple_GetItem(window, 1), &start) == 0 &&
                 PyBytes_AsStringAndSize(head, &data, &bytes) == 0)
            made = PyBytes_FromStringAndSize(NULL, bytes + 8);
        if (made) {
            char *to = PyBytes_AsString(made);
            memcpy(to, data, (size_t)bytes);
            put_number(to + bytes, (uint64_t)start, 8);
        }
        Py_XDECREF(head);
        Py_XDECREF(window);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    return out;
}
