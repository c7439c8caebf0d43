/* Columns of messages of joins by foreign keys. streamlet/dsl/foreign_keys/wire.py has their bytes,
 * and wire_columns.py beside it says what each function does, and does the same where this extension
 * is not built. A column with an entry that is not as usual is Python's: the answer is None. */
#include "native.h"

enum { SUBSCRIPTION_VERSION = 1, ANSWER_VERSION = 2, NO_DIGEST = 0x80, NO_VALUE = 0x40 };
enum { UNSUBSCRIBE, UNSUBSCRIBE_AND_ANSWER, SUBSCRIBE, SUBSCRIBE_IF_THERE };
enum { HALF = 8, DIGEST = 2 * HALF, PARTITION = 4, SOURCE = 8, HEAD = 2 };

/* Bytes that somebody else holds; data is NULL of None. */
typedef struct {
    char *data;
    Py_ssize_t length;
} Span;

/* 1: bytes or None, 0: something else. */
static int span_of(PyObject *entry, Span *span) {
    *span = (Span){0};
    if (!entry || entry == Py_None) return entry != NULL;
    if (!PyBytes_CheckExact(entry)) return 0;
    return PyBytes_AsStringAndSize(entry, &span->data, &span->length) == 0;
}

static int same(const Span *one, const Span *other) {
    if (!one->data || !other->data) return one->data == other->data;
    return one->length == other->length &&
           memcmp(one->data, other->data, (size_t)one->length) == 0;
}

/* Bytes that are all these, one behind the other. */
static PyObject *joined(const Span *spans, int count) {
    Py_ssize_t length = 0;
    for (int i = 0; i < count; i++) length += spans[i].length;
    PyObject *made = PyBytes_FromStringAndSize(NULL, length);
    char *to = made ? PyBytes_AsString(made) : NULL;
    for (int i = 0; to && i < count; i++) {
        if (spans[i].length) memcpy(to, spans[i].data, (size_t)spans[i].length);
        to += spans[i].length;
    }
    return made;
}

/* Appends an object of our own, which may be NULL with an exception. */
static int put(PyObject *list, PyObject *made) {
    int bad = !made || PyList_Append(list, made) < 0;
    Py_XDECREF(made);
    return bad ? -1 : 0;
}

/* Lists of results, which go together. */
typedef struct {
    PyObject *lists[4];
    int count;
} Results;

static int results_new(Results *results, int count) {
    *results = (Results){.count = count};
    for (int i = 0; i < count; i++)
        if (!(results->lists[i] = PyList_New(0))) return -1;
    return 0;
}

static void results_free(Results *results) {
    for (int i = 0; i < results->count; i++) Py_CLEAR(results->lists[i]);
}

/* None instead of results: Python is to make them. */
static PyObject *left_to_python(Results *results) {
    results_free(results);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* The digest of a name, cut to a half; one that was met before is in the dict. */
static PyObject *name_half(PyObject *halves, PyObject *name) {
    PyObject *half = PyDict_GetItemWithError(halves, name);
    if (half || PyErr_Occurred()) return Py_XNewRef(half);
    Span span;
    if (!span_of(name, &span)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a foreign key is bytes or None");
        return NULL;
    }
    half = span.data ? blake2b_of(span.data, span.length, DIGEST) : NULL;
    if (!span.data) half = PyBytes_FromStringAndSize("\0\0\0\0\0\0\0\0", HALF);
    if (half && PyDict_SetItem(halves, name, half) < 0) Py_CLEAR(half);
    return half;
}

static PyObject *row_digest(PyObject *content, PyObject *name, PyObject *halves) {
    if (content == Py_None) return Py_NewRef(Py_None);
    Span spans[2];
    PyObject *half = name_half(halves, name), *made = NULL;
    if (half && span_of(content, &spans[0]) && span_of(half, &spans[1])) {
        for (int i = 0; i < 2; i++)
            if (spans[i].length > HALF) spans[i].length = HALF;
        made = joined(spans, 2);
    } else if (half && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "a digest is bytes or None");
    }
    Py_XDECREF(half);
    return made;
}

PyObject *foreign_digests(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *contents, *names;
    if (!two_columns(arguments, &contents, &names)) return NULL;
    Py_ssize_t count = PyList_Size(contents);
    PyObject *halves = PyDict_New(), *out = halves ? PyList_New(count) : NULL;
    for (Py_ssize_t at = 0; out && at < count; at++) {
        PyObject *content = list_entry(contents, at), *name = list_entry(names, at);
        PyObject *made = content && name ? row_digest(content, name, halves) : NULL;
        Py_XDECREF(content);
        Py_XDECREF(name);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    Py_XDECREF(halves);
    return out;
}

/* What is sent of one row: its index, key and digest, and the partition of its task. */
typedef struct {
    Py_ssize_t index;
    Span key, digest, partition;
} Asking;

/* Adds a subscription to a name, an object that somebody else holds. */
static int asked(Results *results, const Asking *row, PyObject *name, int instruction) {
    int version = SUBSCRIPTION_VERSION | (row->digest.data ? 0 : NO_DIGEST);
    char head[HEAD] = {(char)version, (char)instruction};
    Span spans[4] = {{head, HEAD}, row->digest, row->key, row->partition};
    if (put(results->lists[0], PyLong_FromSsize_t(row->index)) < 0 ||
        PyList_Append(results->lists[1], name) < 0)
        return -1;
    return put(results->lists[2], joined(spans, 4));
}

/* Adds the subscriptions of a change of a row. */
static int change_asked(Results *results, const Asking *row, int was, int left, PyObject *name,
                        PyObject *before) {
    Span new, old;
    if (!span_of(name, &new) || !span_of(before, &old)) return -1;
    int moved = old.data && !same(&old, &new);
    if (left) {
        if (!row->digest.data && !was) return 0;
        if (moved && asked(results, row, before, UNSUBSCRIBE) < 0) return -1;
        return asked(results, row, name, SUBSCRIBE);
    }
    if (!new.data) return moved ? asked(results, row, before, UNSUBSCRIBE_AND_ANSWER) : 0;
    if (!moved) return asked(results, row, name, SUBSCRIBE_IF_THERE);
    if (asked(results, row, before, UNSUBSCRIBE) < 0) return -1;
    return asked(results, row, name, SUBSCRIBE);
}

PyObject *foreign_subscriptions(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *lists[5]; /* keys, digests, names, names before, old rows */
    Asking row = {0};
    int left;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!y#p", &PyList_Type, &lists[0], &PyList_Type,
                          &lists[1], &PyList_Type, &lists[2], &PyList_Type, &lists[3],
                          &PyList_Type, &lists[4], &row.partition.data, &row.partition.length,
                          &left))
        return NULL;
    Py_ssize_t count = PyList_Size(lists[0]), dropped = 0;
    Results results;
    int bad = results_new(&results, 3) < 0;
    for (; !bad && row.index < count; row.index++) {
        PyObject *entries[5] = {0};
        for (int i = 0; i < 5; i++) bad |= !(entries[i] = list_entry(lists[i], row.index));
        bad = bad || !span_of(entries[0], &row.key) || !row.key.data ||
              !span_of(entries[1], &row.digest) ||
              change_asked(&results, &row, entries[4] != Py_None, left, entries[2], entries[3]) < 0;
        dropped += !bad && !left && row.digest.data && entries[2] == Py_None;
        for (int i = 0; i < 5; i++) Py_XDECREF(entries[i]);
    }
    if (bad) return left_to_python(&results);
    return Py_BuildValue("NNNn", results.lists[0], results.lists[1], results.lists[2], dropped);
}

/* Bytes like those of the entry before, which is taken again if it has the same; `last` is it. */
static PyObject *repeated(PyObject **last, const char *data, Py_ssize_t length) {
    char *known;
    Py_ssize_t size;
    if (*last && PyBytes_AsStringAndSize(*last, &known, &size) == 0 && size == length &&
        memcmp(known, data, (size_t)length) == 0)
        return Py_NewRef(*last);
    PyObject *made = PyBytes_FromStringAndSize(data, length);
    if (made) *last = made; /* held by the result that it is put into */
    return made;
}

/* The parts of one subscription, as Python reads them; NULL without an exception: not as usual. */
static PyObject *subscription_cut(const Span *raw, PyObject **partition) {
    if (raw->length < HEAD + PARTITION) return NULL;
    int version = (unsigned char)raw->data[0], whole = version == SUBSCRIPTION_VERSION;
    Py_ssize_t start = HEAD + (whole ? DIGEST : 0), end = raw->length - PARTITION;
    if (end < start || (!whole && version != (SUBSCRIPTION_VERSION | NO_DIGEST))) return NULL;
    PyObject *digest = whole ? PyBytes_FromStringAndSize(raw->data + HEAD, DIGEST)
                             : Py_NewRef(Py_None);
    PyObject *key = digest ? PyBytes_FromStringAndSize(raw->data + start, end - start) : NULL;
    PyObject *where = key ? repeated(partition, raw->data + end, PARTITION) : NULL;
    PyObject *number = where ? PyLong_FromLong((unsigned char)raw->data[1]) : NULL;
    PyObject *made = number ? PyTuple_Pack(4, number, digest, key, where) : NULL;
    if (where && !made) *partition = NULL; /* nobody holds it */
    Py_XDECREF(number);
    Py_XDECREF(where);
    Py_XDECREF(key);
    Py_XDECREF(digest);
    return made;
}

/* Adds the key and the row that a store has of a subscription; a null row is none. */
static int row_kept(Results *results, const Span *raw, const Span *name) {
    int whole = raw->data[0] == SUBSCRIPTION_VERSION;
    int stays = raw->data[1] == SUBSCRIBE || raw->data[1] == SUBSCRIBE_IF_THERE;
    Py_ssize_t start = HEAD + (whole ? DIGEST : 0), end = raw->length - PARTITION;
    char length[4];
    put_number(length, (uint64_t)name->length, 4);
    Span key[3] = {{length, 4}, *name, {raw->data + start, end - start}};
    Span row[2] = {{raw->data + HEAD, DIGEST}, {raw->data + end, PARTITION}};
    if (put(results->lists[1], joined(key, 3)) < 0) return -1;
    return put(results->lists[2], whole && stays ? joined(row, 2) : Py_NewRef(Py_None));
}

PyObject *foreign_kept(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *raws, *names, *partition = NULL;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyList_Type, &raws, &PyList_Type, &names))
        return NULL;
    Py_ssize_t count = PyList_Size(raws);
    if (PyList_Size(names) != count) Py_RETURN_NONE;
    Results results;
    int bad = results_new(&results, 3) < 0;
    for (Py_ssize_t at = 0; !bad && at < count; at++) {
        PyObject *entry = list_entry(raws, at), *named = list_entry(names, at);
        Span raw, name;
        bad = !span_of(entry, &raw) || !span_of(named, &name) || !raw.data || !name.data ||
              name.length > UINT32_MAX;
        PyObject *cut = bad ? NULL : subscription_cut(&raw, &partition);
        bad = !cut || put(results.lists[0], cut) < 0 || row_kept(&results, &raw, &name) < 0;
        Py_XDECREF(entry);
        Py_XDECREF(named);
    }
    if (bad) return left_to_python(&results);
    return Py_BuildValue("NNN", results.lists[0], results.lists[1], results.lists[2]);
}

/* Adds the answer to one subscription, if it gets one. 1: its right row is not known. */
static int answered(Results *results, Py_ssize_t index, PyObject *asked, PyObject *known,
                    PyObject *time, const Span *source) {
    Span digest, partition, sent = {0};
    long instruction = PyLong_AsLong(PyTuple_GetItem(asked, 0));
    if (instruction == -1 && PyErr_Occurred()) return -1;
    if (instruction == UNSUBSCRIBE) return 0;
    if (!known) return 1;
    PyObject *row = PyTuple_GetItem(known, 0), *of_row = row ? PyTuple_GetItem(known, 1) : NULL;
    if (!of_row || !span_of(PyTuple_GetItem(asked, 1), &digest) ||
        !span_of(PyTuple_GetItem(asked, 3), &partition) || !partition.data || !span_of(row, &sent))
        return -1;
    if (instruction == UNSUBSCRIBE_AND_ANSWER) sent = (Span){0};
    if (!sent.data && instruction == SUBSCRIBE_IF_THERE) return 0;
    char head = (char)(ANSWER_VERSION | (digest.data ? 0 : NO_DIGEST) | (sent.data ? 0 : NO_VALUE));
    Span spans[5] = {partition, {&head, 1}, *source, digest, sent};
    int later = PyObject_RichCompareBool(of_row, time, Py_GT);
    if (later < 0 || put(results->lists[0], PyLong_FromSsize_t(index)) < 0 ||
        PyList_Append(results->lists[1], PyTuple_GetItem(asked, 2)) < 0 ||
        put(results->lists[2], joined(spans, 5)) < 0)
        return -1;
    return PyList_Append(results->lists[3], later ? of_row : time);
}

PyObject *foreign_answers(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *asked, *keys, *times, *rows;
    Span source;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!y#", &PyList_Type, &asked, &PyList_Type, &keys,
                          &PyList_Type, &times, &PyDict_Type, &rows, &source.data, &source.length))
        return NULL;
    Results results;
    Py_ssize_t count = PyList_Size(asked), at = 0;
    int done = results_new(&results, 4);
    for (; !done && at < count; at++) {
        PyObject *one = list_entry(asked, at), *key = one ? list_entry(keys, at) : NULL;
        PyObject *time = key ? list_entry(times, at) : NULL;
        PyObject *known = time ? PyDict_GetItemWithError(rows, key) : NULL;
        Py_XINCREF(known);
        done = !time || PyErr_Occurred() ? -1 : answered(&results, at, one, known, time, &source);
        Py_XDECREF(known);
        Py_XDECREF(time);
        Py_XDECREF(key);
        Py_XDECREF(one);
        if (done) break;
    }
    if (done < 0) return left_to_python(&results);
    return Py_BuildValue("NNNNn", results.lists[0], results.lists[1], results.lists[2],
                         results.lists[3], at);
}

PyObject *foreign_answered(PyObject *module, PyObject *raws) {
    (void)module;
    if (!PyList_Check(raws)) {
        PyErr_SetString(PyExc_TypeError, "a column is a list");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(raws), start = PARTITION + 1, digest = start + SOURCE,
               value = digest + DIGEST;
    Results results;
    PyObject *last = NULL;
    int bad = results_new(&results, 3) < 0;
    for (Py_ssize_t at = 0; !bad && at < count; at++) {
        PyObject *entry = list_entry(raws, at);
        Span raw;
        bad = !span_of(entry, &raw) || raw.length < value || raw.data[PARTITION] != ANSWER_VERSION ||
              put(results.lists[0], repeated(&last, raw.data + start, SOURCE)) < 0 ||
              put(results.lists[1], PyBytes_FromStringAndSize(raw.data + digest, DIGEST)) < 0 ||
              put(results.lists[2],
                  PyBytes_FromStringAndSize(raw.data + value, raw.length - value)) < 0;
        Py_XDECREF(entry);
    }
    if (bad) return left_to_python(&results);
    return Py_BuildValue("NNNO", results.lists[0], results.lists[1], results.lists[2], Py_None);
}

PyObject *foreign_partitions(PyObject *module, PyObject *raws) {
    (void)module;
    if (!PyList_Check(raws)) {
        PyErr_SetString(PyExc_TypeError, "a column is a list");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(raws);
    PyObject *out = PyList_New(count);
    for (Py_ssize_t at = 0; out && at < count; at++) {
        PyObject *entry = list_entry(raws, at), *made = NULL;
        Span raw = {0};
        if (entry && PyBytes_AsStringAndSize(entry, &raw.data, &raw.length) == 0) {
            unsigned long found = 0;
            for (int i = 0; i < PARTITION && i < raw.length; i++)
                found = found << 8 | (unsigned char)raw.data[i];
            made = PyLong_FromUnsignedLong(found);
        }
        Py_XDECREF(entry);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    return out;
}
