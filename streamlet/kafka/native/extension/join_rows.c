/* The rows of a join of two streams in a dict: lists of (time, value) by (start of a bucket, key).
 * streamlet/state/join_rows.py says what each function does, and does the same where this extension
 * is not built. */
#include "native.h"

static int64_t start_of(int64_t time, int64_t bucket) {
    int64_t rest = time % bucket;
    return time - (rest < 0 ? rest + bucket : rest);
}

/* The starts of buckets that were met last, as numbers that many places share. */
typedef struct {
    int64_t starts[2];
    PyObject *numbers[2];
} Starts;

static void starts_clear(Starts *known) {
    for (int i = 0; i < 2; i++) Py_CLEAR(known->numbers[i]);
}

/* The place of a key in a bucket: a tuple of the start of that and the key. */
static PyObject *place_of(Starts *known, int64_t start, int64_t bucket, PyObject *key) {
    int at = (start / bucket) & 1;
    if (!known->numbers[at] || known->starts[at] != start) {
        Py_XDECREF(known->numbers[at]);
        known->numbers[at] = PyLong_FromLongLong(start);
        known->starts[at] = start;
    }
    return known->numbers[at] && key ? PyTuple_Pack(2, known->numbers[at], key) : NULL;
}

/* Puts a record behind a row, or into a new one. 1: the row is full. */
static int added(PyObject *cache, PyObject *dirty, PyObject *fresh, PyObject *place, PyObject *time,
                 PyObject *value, Py_ssize_t full) {
    PyObject *row = PyDict_GetItemWithError(cache, place);
    if (!row && PyErr_Occurred()) return -1;
    Py_ssize_t length = row && row != Py_None ? PyList_Size(row) : 0;
    if (length < 0) return -1;
    if (length >= full) return 1;
    PyObject *more = PyList_New(length + 1);
    for (Py_ssize_t i = 0; more && i < length; i++)
        if (PyList_SetItem(more, i, list_entry(row, i)) < 0) Py_CLEAR(more);
    PyObject *record = more ? PyTuple_Pack(2, time, value) : NULL;
    int bad = !record || PyList_SetItem(more, length, record) < 0 ||
              (!row && PyList_Append(fresh, place) < 0) ||
              PyDict_SetItem(cache, place, more) < 0 || PyDict_SetItem(dirty, place, time) < 0;
    Py_XDECREF(more);
    return bad ? -1 : 0;
}

PyObject *join_add(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *cache, *dirty, *keys, *times, *values;
    long long shown, bucket;
    Py_ssize_t full, at;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!LLnn", &PyDict_Type, &cache, &PyDict_Type, &dirty,
                          &PyList_Type, &keys, &PyList_Type, &times, &PyList_Type, &values, &shown,
                          &bucket, &full, &at))
        return NULL;
    if (bucket < 1 || at < 0) {
        PyErr_SetString(PyExc_ValueError, "a bucket has a length, and records an index");
        return NULL;
    }
    if (!is_beside(keys, times) || !is_beside(keys, values)) return NULL;
    PyObject *fresh = PyList_New(0);
    Starts known = {0};
    for (int answer = 0; fresh && at < PyList_Size(keys); at++) {
        PyObject *number = PyList_GetItem(times, at);
        int64_t time;
        if (int64_of(number, &time) < 0) {
            Py_CLEAR(fresh);
            break;
        }
        if (time < shown) continue;
        PyObject *key = PyList_GetItem(keys, at);
        PyObject *place = place_of(&known, start_of(time, bucket), bucket, key);
        answer = place ? added(cache, dirty, fresh, place, number, PyList_GetItem(values, at), full)
                       : -1;
        Py_XDECREF(place);
        if (answer > 0) break;
        if (answer < 0) Py_CLEAR(fresh);
    }
    starts_clear(&known);
    return fresh ? Py_BuildValue("nN", at, fresh) : NULL;
}

/* The records of one key that are found. */
typedef struct {
    int64_t time;
    Py_ssize_t came;
    PyObject *number, *value;
} Match;

typedef struct {
    Match *all;
    Py_ssize_t count, room;
    int rising;
} Matches;

static void matches_clear(Matches *matches) {
    for (Py_ssize_t i = 0; i < matches->count; i++) {
        Py_DECREF(matches->all[i].number);
        Py_DECREF(matches->all[i].value);
    }
    matches->count = 0;
    matches->rising = 1;
}

static int match_add(Matches *matches, int64_t time, PyObject *number, PyObject *value) {
    if (matches->count == matches->room) {
        Py_ssize_t room = 2 * matches->room + 8;
        Match *more = realloc(matches->all, (size_t)room * sizeof(Match));
        if (!more) {
            PyErr_NoMemory();
            return -1;
        }
        matches->all = more;
        matches->room = room;
    }
    if (matches->count && matches->all[matches->count - 1].time > time) matches->rising = 0;
    matches->all[matches->count] =
        (Match){time, matches->count, Py_NewRef(number), Py_NewRef(value)};
    matches->count++;
    return 0;
}

static int row_matches(Matches *matches, PyObject *row, int64_t low, int64_t high) {
    Py_ssize_t length = PyList_Size(row);
    if (length < 0) return -1;
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *record = PyList_GetItem(row, i);
        PyObject *number = record ? PyTuple_GetItem(record, 0) : NULL;
        PyObject *value = number ? PyTuple_GetItem(record, 1) : NULL;
        int64_t time;
        if (!value || int64_of(number, &time) < 0) return -1;
        if (low <= time && time <= high && match_add(matches, time, number, value) < 0) return -1;
    }
    return 0;
}

/* What is in the row of one bucket; `whole` gives that of a full one with those behind it. */
static int place_matches(Matches *matches, PyObject *cache, PyObject *place, int64_t low,
                         int64_t high, Py_ssize_t full, PyObject *whole) {
    PyObject *row = PyDict_GetItemWithError(cache, place);
    if (!row) return PyErr_Occurred() ? -1 : 0;
    if (row == Py_None) return 0;
    Py_ssize_t length = PyList_Size(row);
    if (length < 0) return -1;
    row = length < full ? Py_NewRef(row) : PyObject_CallFunctionObjArgs(whole, place, NULL);
    if (!row) return -1;
    int answer = row_matches(matches, row, low, high);
    Py_DECREF(row);
    return answer;
}

static int by_time(const void *one, const void *other) {
    const Match *a = one, *b = other;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return a->came < b->came ? -1 : a->came > b->came;
}

static int matches_shown(Matches *matches, PyObject *counts, PyObject *times, PyObject *values) {
    if (!matches->rising) qsort(matches->all, (size_t)matches->count, sizeof(Match), by_time);
    PyObject *count = PyLong_FromSsize_t(matches->count);
    int bad = !count || PyList_Append(counts, count) < 0;
    Py_XDECREF(count);
    for (Py_ssize_t i = 0; !bad && i < matches->count; i++)
        bad = PyList_Append(times, matches->all[i].number) < 0 ||
              PyList_Append(values, matches->all[i].value) < 0;
    return bad ? -1 : 0;
}

PyObject *join_find(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *cache, *keys, *lows, *highs, *whole;
    long long shown, bucket;
    Py_ssize_t full, at, most;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!LLnOnn", &PyDict_Type, &cache, &PyList_Type, &keys,
                          &PyList_Type, &lows, &PyList_Type, &highs, &shown, &bucket, &full, &whole,
                          &at, &most))
        return NULL;
    if (bucket < 1 || at < 0) {
        PyErr_SetString(PyExc_ValueError, "a bucket has a length, and records an index");
        return NULL;
    }
    if (!is_beside(keys, lows) || !is_beside(keys, highs)) return NULL;
    PyObject *counts = PyList_New(0), *times = PyList_New(0), *values = PyList_New(0);
    Matches matches = {.rising = 1};
    Starts known = {0};
    int bad = !counts || !times || !values;
    for (; !bad && at < PyList_Size(keys) && PyList_Size(times) < most; at++) {
        int64_t low, high;
        bad = int64_of(PyList_GetItem(lows, at), &low) < 0 ||
              int64_of(PyList_GetItem(highs, at), &high) < 0;
        low = low < shown ? shown : low;
        for (int64_t start = start_of(low, bucket); !bad && start <= high; start += bucket) {
            PyObject *place = place_of(&known, start, bucket, PyList_GetItem(keys, at));
            bad = !place || place_matches(&matches, cache, place, low, high, full, whole) < 0;
            Py_XDECREF(place);
        }
        bad = bad || matches_shown(&matches, counts, times, values) < 0;
        matches_clear(&matches);
    }
    free(matches.all);
    starts_clear(&known);
    if (!bad) return Py_BuildValue("NNN", counts, times, values);
    Py_XDECREF(counts);
    Py_XDECREF(times);
    Py_XDECREF(values);
    return NULL;
}

#define HEAD_BYTES 12

/* Where the next record begins behind its head, which is written: time and length. */
static char *head_put(char *at, int64_t time, Py_ssize_t length) {
    put_number(at, (uint64_t)time, 8);
    put_number(at + 8, (uint64_t)length, 4);
    return at + HEAD_BYTES;
}

/* The bytes of a row whose values are the next of a column. */
static PyObject *row_packed(PyObject *row, PyObject *raws, Py_ssize_t first) {
    Py_ssize_t count = PyList_Size(row), size = 0, length;
    char *data;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *raw = PyList_GetItem(raws, first + i);
        if (!raw || PyBytes_AsStringAndSize(raw, &data, &length) < 0) return NULL;
        if (length > UINT32_MAX) {
            PyErr_SetString(PyExc_OverflowError, "a value is too large");
            return NULL;
        }
        size += HEAD_BYTES + length;
    }
    PyObject *out = count < 0 ? NULL : PyBytes_FromStringAndSize(NULL, size);
    char *at = out ? PyBytes_AsString(out) : NULL;
    for (Py_ssize_t i = 0; at && i < count; i++) {
        PyObject *record = PyList_GetItem(row, i);
        int64_t time;
        if (!record || int64_of(PyTuple_GetItem(record, 0), &time) < 0 ||
            PyBytes_AsStringAndSize(PyList_GetItem(raws, first + i), &data, &length) < 0) {
            Py_CLEAR(out);
            break;
        }
        at = head_put(at, time, length);
        memcpy(at, data, (size_t)length);
        at += length;
    }
    return out;
}

PyObject *join_pack(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *rows, *raws;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyList_Type, &rows, &PyList_Type, &raws)) return NULL;
    Py_ssize_t count = PyList_Size(rows), first = 0;
    PyObject *out = PyList_New(count);
    for (Py_ssize_t at = 0; out && at < count; at++) {
        PyObject *row = PyList_GetItem(rows, at);
        PyObject *made = row ? row_packed(row, raws, first) : NULL;
        if (!made || PyList_SetItem(out, at, made) < 0) {
            Py_CLEAR(out);
            break;
        }
        first += PyList_Size(row);
    }
    return out;
}
