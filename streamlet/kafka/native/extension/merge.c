/* The order of records of several inputs by their times, and the rounds in which those of one key
 * follow each other. streamlet/processing/merged_batch.py says what they are, and does the same where
 * this extension is not built. */
#include "native.h"

/* The next records of an input. */
typedef struct {
    int64_t *times, *risen;
    Py_ssize_t length, count, at;
} Input;

static void inputs_free(Input *inputs, Py_ssize_t count) {
    for (Py_ssize_t i = 0; inputs && i < count; i++) {
        free(inputs[i].times);
        free(inputs[i].risen);
    }
    free(inputs);
}

static int input_read(Input *input, PyObject *column) {
    if (!PyList_Check(column) || !(input->length = PyList_Size(column))) {
        PyErr_SetString(PyExc_TypeError, "the times of an input are a list of one at least");
        return -1;
    }
    size_t bytes = (size_t)input->length * sizeof(int64_t);
    input->times = malloc(bytes);
    input->risen = malloc(bytes);
    if (!input->times || !input->risen) {
        PyErr_NoMemory();
        return -1;
    }
    int64_t highest = INT64_MIN;
    for (Py_ssize_t i = 0; i < input->length; i++) {
        PyObject *entry = PyList_GetItem(column, i);
        int64_t time;
        if (int64_of(entry, &time) < 0) return -1;
        highest = time > highest ? time : highest;
        input->times[i] = time;
        input->risen[i] = highest;
    }
    return 0;
}

static Input *inputs_read(PyObject *columns, Py_ssize_t count) {
    Input *inputs = calloc((size_t)count, sizeof(Input));
    if (!inputs) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *column = PyList_GetItem(columns, i);
        if (!column || input_read(&inputs[i], column) < 0) {
            inputs_free(inputs, count);
            return NULL;
        }
    }
    return inputs;
}

/* How many of an input are certain: up to the end of the one that ends first. */
static void inputs_count(Input *inputs, Py_ssize_t count) {
    Py_ssize_t first = 0;
    for (Py_ssize_t i = 1; i < count; i++)
        if (inputs[i].risen[inputs[i].length - 1] < inputs[first].risen[inputs[first].length - 1])
            first = i;
    int64_t end = inputs[first].risen[inputs[first].length - 1];
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t at = 0;
        const int64_t *risen = inputs[i].risen;
        while (at < inputs[i].length && (i <= first ? risen[at] <= end : risen[at] < end)) at++;
        inputs[i].count = at;
    }
}

/* The input whose next record comes next, the first of equal ones; -1: there is none. */
static Py_ssize_t next_of(const Input *inputs, Py_ssize_t count) {
    Py_ssize_t found = -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (inputs[i].at < inputs[i].count &&
            (found < 0 || inputs[i].risen[inputs[i].at] < inputs[found].risen[inputs[found].at]))
            found = i;
    return found;
}

PyObject *merge_order(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *columns, *spread;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyList_Type, &columns, &spread)) return NULL;
    int bounded = spread != Py_None;
    int64_t most = 0;
    if (bounded && int64_of(spread, &most) < 0) return NULL;
    Py_ssize_t count = PyList_Size(columns), next;
    if (!count) {
        PyErr_SetString(PyExc_ValueError, "there is one input at least");
        return NULL;
    }
    Input *inputs = inputs_read(columns, count);
    if (!inputs) return NULL;
    inputs_count(inputs, count);
    int64_t low = INT64_MAX, high = INT64_MIN;
    PyObject *order = PyList_New(0);
    while (order && (next = next_of(inputs, count)) >= 0) {
        int64_t time = inputs[next].times[inputs[next].at++];
        low = time < low ? time : low;
        high = time > high ? time : high;
        if (bounded && PyList_Size(order) && high - low > most) break;
        PyObject *number = PyLong_FromSsize_t(next);
        if (!number || PyList_Append(order, number) < 0) Py_CLEAR(order);
        Py_XDECREF(number);
    }
    inputs_free(inputs, count);
    return order;
}

/* The indexes of the records of each slot: round r of input i is slot r * count + i. */
typedef struct {
    PyObject **lists;
    Py_ssize_t length;
} Slots;

static int slot_add(Slots *slots, Py_ssize_t slot, Py_ssize_t index) {
    if (slot >= slots->length) {
        Py_ssize_t length = 2 * slot + 8;
        PyObject **more = realloc(slots->lists, (size_t)length * sizeof(PyObject *));
        if (!more) {
            PyErr_NoMemory();
            return -1;
        }
        memset(more + slots->length, 0, (size_t)(length - slots->length) * sizeof(PyObject *));
        slots->lists = more;
        slots->length = length;
    }
    if (!slots->lists[slot] && !(slots->lists[slot] = PyList_New(0))) return -1;
    PyObject *number = PyLong_FromSsize_t(index);
    int bad = !number || PyList_Append(slots->lists[slot], number) < 0;
    Py_XDECREF(number);
    return bad ? -1 : 0;
}

/* The slot of the next record of a key, which is noted. */
static Py_ssize_t slot_next(PyObject *last, PyObject *key, Py_ssize_t at, Py_ssize_t count) {
    PyObject *noted = PyDict_GetItemWithError(last, key);
    if (!noted && PyErr_Occurred()) return -1;
    Py_ssize_t before = noted ? PyLong_AsSsize_t(noted) : -1, slot = noted ? before : at;
    if (slot % count != at) slot += count + at - slot % count;
    if (slot == before) return slot;
    PyObject *number = PyLong_FromSsize_t(slot);
    int bad = !number || PyDict_SetItem(last, key, number) < 0;
    Py_XDECREF(number);
    return bad ? -1 : slot;
}

static PyObject *slots_shown(Slots *slots, Py_ssize_t count) {
    PyObject *all = PyList_New(0);
    for (Py_ssize_t slot = 0; all && slot < slots->length; slot++) {
        if (!slots->lists[slot]) continue;
        PyObject *one = Py_BuildValue("nO", slot % count, slots->lists[slot]);
        if (!one || PyList_Append(all, one) < 0) Py_CLEAR(all);
        Py_XDECREF(one);
    }
    return all;
}

PyObject *merge_rounds(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *order, *columns;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyList_Type, &order, &PyList_Type, &columns))
        return NULL;
    Py_ssize_t count = PyList_Size(columns), length = PyList_Size(order);
    Py_ssize_t *done = calloc((size_t)count + 1, sizeof(Py_ssize_t));
    PyObject *last = PyDict_New(), *shown = NULL;
    Slots slots = {0};
    int bad = !done || !last;
    if (!done) PyErr_NoMemory();
    for (Py_ssize_t i = 0; !bad && i < length; i++) {
        PyObject *number = PyList_GetItem(order, i);
        Py_ssize_t at = number ? PyLong_AsSsize_t(number) : -1, slot = -1;
        PyObject *column = at < 0 ? NULL : PyList_GetItem(columns, at);
        PyObject *key = column ? PyList_GetItem(column, done[at]) : NULL;
        if (key) slot = slot_next(last, key, at, count);
        bad = slot < 0 || slot_add(&slots, slot, done[at]++) < 0;
    }
    if (bad && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "there is no such input");
    if (!bad) shown = slots_shown(&slots, count);
    for (Py_ssize_t slot = 0; slot < slots.length; slot++) Py_XDECREF(slots.lists[slot]);
    free(slots.lists);
    free(done);
    Py_XDECREF(last);
    return shown;
}

PyObject *merge_places(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *order;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(arguments, "O!n", &PyList_Type, &order, &count)) return NULL;
    PyObject *all = PyList_New(0);
    for (Py_ssize_t i = 0; all && i < count; i++) {
        PyObject *column = PyList_New(0);
        if (!column || PyList_Append(all, column) < 0) Py_CLEAR(all);
        Py_XDECREF(column);
    }
    for (Py_ssize_t place = 0; all && place < PyList_Size(order); place++) {
        PyObject *input = list_entry(order, place), *column = NULL, *number = NULL;
        Py_ssize_t at = input ? PyLong_AsSsize_t(input) : -1;
        Py_XDECREF(input);
        if (at >= 0 && at < count) column = PyList_GetItem(all, at);
        if (column) number = PyLong_FromSsize_t(place);
        if (!number || PyList_Append(column, number) < 0) Py_CLEAR(all);
        Py_XDECREF(number);
    }
    if (!all && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "there is no such input");
    return all;
}

PyObject *entries_at(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *column, *numbers;
    Py_ssize_t first;
    if (!PyArg_ParseTuple(arguments, "O!O!n", &PyList_Type, &column, &PyList_Type, &numbers,
                          &first))
        return NULL;
    Py_ssize_t length = PyList_Size(numbers);
    PyObject *out = PyList_New(length);
    for (Py_ssize_t i = 0; out && i < length; i++) {
        PyObject *number = list_entry(numbers, i), *entry = NULL;
        Py_ssize_t at = number ? PyLong_AsSsize_t(number) : -1;
        Py_XDECREF(number);
        if (!PyErr_Occurred()) entry = list_entry(column, at - first);
        if (!entry || PyList_SetItem(out, i, entry) < 0) Py_CLEAR(out);
    }
    return out;
}

/* The entry, so many times; -1 with an exception. */
static int repeat_added(PyObject *out, PyObject *entry, PyObject *count) {
    Py_ssize_t times = count ? PyLong_AsSsize_t(count) : -1;
    if (times < 0 && PyErr_Occurred()) return -1;
    for (Py_ssize_t i = 0; i < times; i++)
        if (PyList_Append(out, entry) < 0) return -1;
    return 0;
}

PyObject *spread(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *column, *counts;
    if (!two_columns(arguments, &column, &counts)) return NULL;
    Py_ssize_t length = PyList_Size(counts);
    PyObject *out = PyList_New(0);
    for (Py_ssize_t i = 0; out && i < length; i++) {
        PyObject *entry = list_entry(column, i), *count = entry ? list_entry(counts, i) : NULL;
        if (!count || repeat_added(out, entry, count) < 0) Py_CLEAR(out);
        Py_XDECREF(entry);
        Py_XDECREF(count);
    }
    return out;
}

/* Sorts the indexes of numbers that are not below the least, nor as many above it as `room`. */
static void sorted_by_count(const int64_t *numbers, Py_ssize_t length, int64_t least,
                            Py_ssize_t *ends, Py_ssize_t room, Py_ssize_t *indexes) {
    for (Py_ssize_t i = 0; i < length; i++) ends[numbers[i] - least]++;
    for (Py_ssize_t i = 1; i < room; i++) ends[i] += ends[i - 1];
    for (Py_ssize_t i = length - 1; i >= 0; i--) indexes[--ends[numbers[i] - least]] = i;
}

PyObject *order_of(PyObject *module, PyObject *column) {
    (void)module;
    Input input = {0};
    if (PyList_Check(column) && !PyList_Size(column)) return PyList_New(0);
    if (input_read(&input, column) < 0) {
        free(input.times);
        free(input.risen);
        return NULL;
    }
    int64_t least = input.times[0], most = input.risen[input.length - 1];
    for (Py_ssize_t i = 0; i < input.length; i++)
        least = input.times[i] < least ? input.times[i] : least;
    PyObject *out = Py_NewRef(Py_None);
    uint64_t span = (uint64_t)most - (uint64_t)least;
    if (span < 16 * (uint64_t)input.length + 1024) {
        Py_ssize_t *ends = calloc((size_t)span + 1, sizeof(Py_ssize_t));
        Py_ssize_t *indexes = malloc((size_t)input.length * sizeof(Py_ssize_t));
        Py_DECREF(out);
        out = ends && indexes ? PyList_New(input.length) : PyErr_NoMemory();
        if (out)
            sorted_by_count(input.times, input.length, least, ends, (Py_ssize_t)span + 1, indexes);
        for (Py_ssize_t i = 0; out && i < input.length; i++) {
            PyObject *number = PyLong_FromSsize_t(indexes[i]);
            if (!number || PyList_SetItem(out, i, number) < 0) Py_CLEAR(out);
        }
        free(ends);
        free(indexes);
    }
    free(input.times);
    free(input.risen);
    return out;
}
