/* Rows in the order of their keys, for files that a database takes over as they are. Columns are as
 * those of columns.c. */
#include "native.h"

/* A row whose key and value are held. Most comparisons end at `head`: eight bytes of the key, behind
 * those that all keys begin with, the first one the most significant. */
typedef struct {
    uint64_t head;
    const unsigned char *data;
    size_t length;
    PyObject *key, *value;
} Row;

static int is_before(const Row *one, const Row *other) {
    if (one->head != other->head) return one->head < other->head;
    size_t both = one->length < other->length ? one->length : other->length;
    int order = memcmp(one->data, other->data, both);
    return order ? order < 0 : one->length < other->length;
}

/* Merges two runs that follow one another; of equal rows the first one stays first. */
static void merged(const Row *rows, size_t middle, size_t end, Row *into) {
    size_t left = 0, right = middle;
    for (size_t at = 0; at < end; at++) {
        int is_right = left == middle || (right < end && is_before(&rows[right], &rows[left]));
        into[at] = rows[is_right ? right++ : left++];
    }
}

/* Sorts rows with as much room beside them; where they are then. */
static Row *sorted(Row *rows, Row *room, size_t count) {
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t at = 0; at < count; at += 2 * width) {
            size_t end = count - at < 2 * width ? count - at : 2 * width;
            merged(rows + at, width < end ? width : end, end, room + at);
        }
        Row *other = rows;
        rows = room;
        room = other;
    }
    return rows;
}

static int row_held(Row *row, PyObject *keys, PyObject *values, Py_ssize_t at) {
    char *data;
    Py_ssize_t length;
    row->key = list_entry(keys, at);
    row->value = row->key ? list_entry(values, at) : NULL;
    if (!row->value || PyBytes_AsStringAndSize(row->key, &data, &length) < 0) return -1;
    row->data = (unsigned char *)data;
    row->length = (size_t)length;
    return 0;
}

/* How many bytes all keys begin with. */
static size_t shared(const Row *rows, size_t count) {
    size_t most = count ? rows[0].length : 0;
    for (size_t at = 1; at < count; at++) {
        most = rows[at].length < most ? rows[at].length : most;
        while (memcmp(rows[0].data, rows[at].data, most)) most--;
    }
    return most;
}

static void heads_read(Row *rows, size_t count) {
    size_t first = shared(rows, count);
    for (size_t at = 0; at < count; at++) {
        Row *row = &rows[at];
        for (size_t i = first; i < first + 8; i++)
            row->head = row->head << 8 | (i < row->length ? row->data[i] : 0);
    }
}

/* Both columns of the rows, which are held by these then. */
static PyObject *columns_of(Row *rows, Py_ssize_t count) {
    PyObject *keys = PyList_New(count), *values = keys ? PyList_New(count) : NULL;
    for (Py_ssize_t at = 0; values && at < count; at++) {
        PyList_SetItem(keys, at, rows[at].key);
        PyList_SetItem(values, at, rows[at].value);
        rows[at].key = rows[at].value = NULL;
    }
    if (values) return Py_BuildValue("NN", keys, values);
    Py_XDECREF(keys);
    return NULL;
}

PyObject *sorted_rows(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *keys, *values;
    if (!two_columns(arguments, &keys, &values)) return NULL;
    Py_ssize_t count = PyList_Size(keys);
    Row *rows = calloc(2 * (size_t)count + 1, sizeof(Row)), *all = rows;
    if (!rows) return PyErr_NoMemory();
    int bad = 0;
    for (Py_ssize_t at = 0; !bad && at < count; at++) bad = row_held(&rows[at], keys, values, at);
    if (!bad) {
        Py_BEGIN_ALLOW_THREADS /* the rows hold what is compared */
        heads_read(rows, (size_t)count);
        all = sorted(rows, rows + count, (size_t)count);
        Py_END_ALLOW_THREADS
    }
    PyObject *columns = bad ? NULL : columns_of(all, count);
    for (Py_ssize_t at = 0; !columns && at < count; at++) {
        Py_XDECREF(all[at].key);
        Py_XDECREF(all[at].value);
    }
    free(rows);
    return columns;
}

/* Rows in the order of their keys lie anywhere in memory: has those that come soon fetched. */
static void prefetched(PyObject *column, Py_ssize_t at) {
#ifdef Py_GIL_DISABLED
    (void)column;
    (void)at;
#else
    const char *entry = at < PyList_Size(column) ? (const char *)PyList_GetItem(column, at) : NULL;
    for (int line = 0; entry && line < 3; line++) __builtin_prefetch(entry + 64 * line);
#endif
}

PyObject *put_items(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *items, *keys, *values;
    Py_ssize_t first, end;
    if (!PyArg_ParseTuple(arguments, "OO!O!nn", &items, &PyList_Type, &keys, &PyList_Type, &values,
                          &first, &end))
        return NULL;
    if (!is_beside(keys, values)) return NULL;
    if (first < 0) {
        PyErr_SetString(PyExc_ValueError, "a part begins at 0 or later");
        return NULL;
    }
    int bad = 0;
    for (Py_ssize_t at = first; !bad && at < end && at < PyList_Size(keys); at++) {
        prefetched(keys, at + 8);
        prefetched(values, at + 8);
        PyObject *key = list_entry(keys, at), *value = key ? list_entry(values, at) : NULL;
        bad = !value || (value == Py_None ? PyObject_DelItem(items, key)
                                          : PyObject_SetItem(items, key, value)) < 0;
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return bad ? NULL : Py_NewRef(Py_None);
}
