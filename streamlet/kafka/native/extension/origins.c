/* Origins of records in exact repartition topics: put before a column, told and cut off. */
#include "native.h"
#include <string.h>

/* Four numbers of 64 bits, lowest byte first: mark, edge, origin and the one before it. */
enum { WORD = 8, PREFIX = 4 * WORD, INDEX_BITS = 20, OFFSET_BITS = 43 };

typedef unsigned long long Word;

static void put(char *to, Word word) {
    for (int i = 0; i < WORD; i++, word >>= 8) to[i] = (char)(word & 0xFF);
}

static Word got(const char *from) {
    Word word = 0;
    for (int i = WORD - 1; i >= 0; i--) word = word << 8 | (unsigned char)from[i];
    return word;
}

/* The newest origin plus one of each partition, as Python has it in a list. */
static Word *chain_of(PyObject *list, Py_ssize_t count) {
    Word *chain = PyMem_Malloc(sizeof(Word) * (size_t)(count ? count : 1));
    if (!chain) return (Word *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        chain[i] = PyLong_AsUnsignedLongLong(PyList_GetItem(list, i));
        if (chain[i] == (Word)-1 && PyErr_Occurred()) {
            PyMem_Free(chain);
            return NULL;
        }
    }
    return chain;
}

static int chain_back(PyObject *list, const Word *chain, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *last = PyLong_FromUnsignedLongLong(chain[i]);
        if (!last || PyList_SetItem(list, i, last) < 0) return -1;
    }
    return 0;
}

/* A value behind its prefix. */
static PyObject *packed(PyObject *value, Word mark, Word edge, Word origin, Word previous) {
    char *data = "";
    Py_ssize_t length = 0;
    if (value != Py_None && PyBytes_AsStringAndSize(value, &data, &length) < 0) return NULL;
    PyObject *made = PyBytes_FromStringAndSize(NULL, PREFIX + length);
    if (!made) return NULL;
    char *to = PyBytes_AsString(made);
    put(to, mark);
    put(to + WORD, edge);
    put(to + 2 * WORD, origin | (value == Py_None));
    put(to + 3 * WORD, previous);
    memcpy(to + PREFIX, data, (size_t)length);
    return made;
}

/* The origin of a record of this offset, which is another one than the last of the partition. */
static Word origin_of(Word offset, Word last) {
    Word origin = (offset + 1) << INDEX_BITS;
    if (last <= origin) return origin;
    return last + 1 < origin + ((Word)1 << INDEX_BITS) ? last + 1 : 0;
}

/* Packs the rows into result; the index of one that has no origin, count if all have, -1: error. */
static Py_ssize_t pack(PyObject *result, PyObject *values, PyObject *offsets, PyObject *partitions,
                       Word *chain, Py_ssize_t many, Word mark, Word edge) {
    Py_ssize_t count = PyList_Size(values);
    for (Py_ssize_t i = 0; i < count; i++) {
        Word offset = PyLong_AsUnsignedLongLong(PyList_GetItem(offsets, i));
        Py_ssize_t at = PyLong_AsSsize_t(PyList_GetItem(partitions, i));
        if (PyErr_Occurred()) return -1;
        if (at < 0 || at >= many || offset >> OFFSET_BITS) {
            PyErr_SetString(PyExc_ValueError, "there is no such partition or offset");
            return -1;
        }
        Word origin = origin_of(offset, chain[at]);
        if (!origin) return i;
        PyObject *made = packed(PyList_GetItem(values, i), mark, edge, origin, chain[at]);
        if (!made || PyList_SetItem(result, i, made) < 0) return -1;
        chain[at] = origin + 1;
    }
    return count;
}

PyObject *origins_packed(PyObject *module, PyObject *arguments) {
    PyObject *given[3], *lists[3] = {0}, *chained, *result = NULL;
    Word mark, edge;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOO!KK", &given[0], &given[1], &given[2], &PyList_Type,
                          &chained, &mark, &edge))
        return NULL;
    for (int i = 0; i < 3; i++)
        if (!(lists[i] = PySequence_List(given[i]))) goto done;
    Py_ssize_t count = PyList_Size(lists[0]), many = PyList_Size(chained);
    if (PyList_Size(lists[1]) != count || PyList_Size(lists[2]) != count) {
        PyErr_SetString(PyExc_ValueError, "columns of different lengths");
        goto done;
    }
    Word *chain = chain_of(chained, many);
    if (!chain) goto done;
    result = PyList_New(count);
    Py_ssize_t end = -1;
    if (result) end = pack(result, lists[0], lists[1], lists[2], chain, many, mark, edge);
    if (end < 0 || (end == count && chain_back(chained, chain, many) < 0)) {
        Py_CLEAR(result);
    } else if (end < count) {
        Py_DECREF(result);
        result = PyLong_FromSsize_t(end);
    }
    PyMem_Free(chain);
done:
    for (int i = 0; i < 3; i++) Py_XDECREF(lists[i]);
    return result;
}

/* Records in a row of one edge. */
typedef struct {
    Py_ssize_t count;
    Word edge, first, last, step, before;
    int follow; /* whether each goes on from the one before it */
} Run;

static int added(PyObject *runs, const Run *run) {
    PyObject *row = Py_BuildValue("(nKKKKKO)", run->count, run->edge, run->first, run->last,
                                  run->step, run->before,
                                  run->follow ? Py_True : Py_False);
    int bad = !row || PyList_Append(runs, row) < 0;
    Py_XDECREF(row);
    return bad ? -1 : 0;
}

/* Adds a record to the run, or begins another one with it. */
static int take(PyObject *runs, Run *run, const char *data) {
    Word edge = got(data + WORD), origin = got(data + 2 * WORD), previous = got(data + 3 * WORD);
    if (run->count && run->edge == edge) {
        run->follow = run->follow && previous == (run->last | 1);
        run->step = origin > run->last ? origin - run->last : 0;
    } else {
        if (run->count && added(runs, run) < 0) return -1;
        *run = (Run){.edge = edge, .first = origin, .before = previous, .follow = 1};
    }
    run->last = origin;
    run->count++;
    return 0;
}

/* The runs and bodies of values: 1, none if some value bears no prefix: 0, or an error: -1. */
static int unpack(PyObject *values, Word mark, PyObject *runs, PyObject *bodies) {
    Py_ssize_t count = PyList_Size(values), length;
    Run run = {0};
    char *data;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = PyList_GetItem(values, i);
        if (value == Py_None) return 0;
        if (PyBytes_AsStringAndSize(value, &data, &length) < 0) return -1;
        if (length < PREFIX || got(data) != mark) return 0;
        if (take(runs, &run, data) < 0) return -1;
        PyObject *body = data[2 * WORD] & 1
                             ? Py_NewRef(Py_None)
                             : PyBytes_FromStringAndSize(data + PREFIX, length - PREFIX);
        if (!body || PyList_SetItem(bodies, i, body) < 0) return -1;
    }
    return run.count && added(runs, &run) < 0 ? -1 : 1;
}

PyObject *origins_cut(PyObject *module, PyObject *arguments) {
    PyObject *given, *runs = NULL, *bodies = NULL, *result = NULL;
    Word mark;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OK", &given, &mark)) return NULL;
    PyObject *values = PySequence_List(given);
    if (values && (runs = PyList_New(0)) && (bodies = PyList_New(PyList_Size(values)))) {
        int found = unpack(values, mark, runs, bodies);
        if (found == 0) result = Py_NewRef(Py_None);
        if (found == 1) result = PyTuple_Pack(2, runs, bodies);
    }
    Py_XDECREF(values);
    Py_XDECREF(runs);
    Py_XDECREF(bodies);
    return result;
}
