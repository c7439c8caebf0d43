/* The module: load(), functions of prefixes, passes over columns, and the type of a client. */
#include "native.h"

static PyObject *load(PyObject *module, PyObject *arguments) {
    State *state = PyModule_GetState(module);
    PyObject *path, *error, *exception;
    if (!PyArg_ParseTuple(arguments, "O&OO", PyUnicode_FSConverter, &path, &error, &exception))
        return NULL;
    int bad = library_load(state, PyBytes_AsString(path)) < 0;
    Py_DECREF(path);
    if (bad) return NULL;
    Py_CLEAR(state->error);
    Py_CLEAR(state->exception);
    state->error = Py_NewRef(error);
    state->exception = Py_NewRef(exception);
    return PyUnicode_FromString(state->library.version_str());
}

static int execute(PyObject *module) {
    State *state = PyModule_GetState(module);
    state->client_type = PyType_FromModuleAndSpec(module, &client_spec, NULL);
    if (!state->client_type) return -1;
    if (PyModule_AddStringConstant(module, "SOURCES", STREAMLET_SOURCES) < 0) return -1;
    return PyModule_AddObjectRef(module, "Client", state->client_type);
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
    State *state = PyModule_GetState(module);
    Py_VISIT(state->error);
    Py_VISIT(state->exception);
    Py_VISIT(state->client_type);
    return 0;
}

static int clear(PyObject *module) {
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->error);
    Py_CLEAR(state->exception);
    Py_CLEAR(state->client_type);
    return 0;
}

static PyMethodDef methods[] = {
    {"load", load, METH_VARARGS,
     "load(path, error, exception): take the librdkafka that is linked to the file; its version."},
    {"pack_origins", origins_packed, METH_VARARGS,
     "pack_origins(values, offsets, partitions, chain, mark, edge): each value behind its origin, "
     "or the index of one that has none; the chain goes on."},
    {"cut_origins", origins_cut, METH_VARARGS,
     "cut_origins(values, mark): the runs of edges, and the values without their origins; or None."},
    {"pack_prefixes", prefixes_packed, METH_VARARGS,
     "pack_prefixes(head, values, first): each value behind the head and its own sequence."},
    {"prefix_runs", prefixes_runs, METH_VARARGS,
     "prefix_runs(values, mark, head, prefix): (start, end, bears, rising, whole) of each run."},
    {"cut_prefixes", prefixes_cut, METH_VARARGS,
     "cut_prefixes(values, start, end, prefix): these values without their first bytes, None for "
     "nulls, and the last 8 bytes of all those, joined."},
    {"encode_texts", encode_texts, METH_O, "encode_texts(column): UTF-8 of texts."},
    {"decode_texts", decode_texts, METH_O, "decode_texts(column): texts out of UTF-8."},
    {"pack_ints", pack_ints, METH_O, "pack_ints(column): eight bytes of each int."},
    {"unpack_ints", unpack_ints, METH_O, "unpack_ints(column): an int of eight bytes."},
    {"pack_floats", pack_floats, METH_O, "pack_floats(column): eight bytes of each float."},
    {"unpack_floats", unpack_floats, METH_O, "unpack_floats(column): a float of eight bytes."},
    {"all_of", all_of, METH_VARARGS, "all_of(column, type): whether all are exactly of it."},
    {"all_flat", all_flat, METH_O, "all_flat(column): whether all are flat dicts or fixed values."},
    {"flat_copies", flat_copies, METH_O,
     "flat_copies(column): with copies of its flat dicts; None if not all are flat."},
    {"document_copies", document_copies, METH_VARARGS,
     "document_copies(column, type): deep copies, of None and documents of the type; None if JSON "
     "may return one as another."},
    {"merge_order", merge_order, METH_VARARGS,
     "merge_order(times, spread): the input of each next record, as far as that is certain."},
    {"merge_rounds", merge_rounds, METH_VARARGS,
     "merge_rounds(order, keys): (input, indexes) of the records of each round and input."},
    {"merge_places", merge_places, METH_VARARGS,
     "merge_places(order, count): the places in the order of each of so many inputs."},
    {"entries_at", entries_at, METH_VARARGS,
     "entries_at(column, numbers, first): the entries at the numbers less the first."},
    {"spread", spread, METH_VARARGS, "spread(column, counts): each entry so many times."},
    {"order_of", order_of, METH_O,
     "order_of(numbers): their indexes in their order; None if they are far apart."},
    {"put_values", put_values, METH_VARARGS,
     "put_values(rows, keys, values): put the value of each key into the dict."},
    {"swap_values", swap_values, METH_VARARGS,
     "swap_values(rows, keys, values): put the value of each key into the dict; those before."},
    {"put_times", put_times, METH_VARARGS,
     "put_times(rows, keys, times): put a copy of the time of each key into the dict."},
    {"highest_time", highest_time, METH_O, "highest_time(times): the highest of them."},
    {"late_places", late_places, METH_VARARGS,
     "late_places(times, latest): where one is below one before it, or below the latest."},
    {"later_times", later_times, METH_VARARGS,
     "later_times(times, others): the later one of each two."},
    {"moved_times", moved_times, METH_VARARGS,
     "moved_times(times, by): times so much later, none below 0."},
    {"timed_values", timed_values, METH_VARARGS,
     "timed_values(values, times, plus): eight bytes of each time and the number before its value; "
     "None for None."},
    {"sorted_rows", sorted_rows, METH_VARARGS,
     "sorted_rows(keys, values): both in the order of the keys, which are bytes."},
    {"put_items", put_items, METH_VARARGS,
     "put_items(items, keys, values, first, end): set these items; None deletes."},
    {"join_add", join_add, METH_VARARGS,
     "join_add(cache, dirty, keys, times, values, shown, bucket, full, first): (next, new rows)."},
    {"join_find", join_find, METH_VARARGS,
     "join_find(cache, keys, lows, highs, shown, bucket, full, whole, first, most): (counts, times, "
     "values)."},
    {"join_pack", join_pack, METH_VARARGS,
     "join_pack(rows, raws): the bytes of rows whose values have these."},
    {"count_windows", count_windows, METH_VARARGS,
     "count_windows(windows, starts, keys, times, first, counts, latest): (next, changed), up to a "
     "row without a slot."},
    {"window_keys", window_keys, METH_VARARGS,
     "window_keys(heads, windows): each head before the eight bytes of its window's start."},
    {"blake2b_column", blake2b_column, METH_VARARGS,
     "blake2b_column(column, size): digests of bytes; None for None."},
    {"foreign_digests", foreign_digests, METH_VARARGS,
     "foreign_digests(contents, names): digests of rows by those of their values."},
    {"foreign_subscriptions", foreign_subscriptions, METH_VARARGS,
     "foreign_subscriptions(keys, digests, names, befores, olds, partition, left): (indexes, names, "
     "values, dropped); or None."},
    {"foreign_kept", foreign_kept, METH_VARARGS,
     "foreign_kept(subscriptions, names): (parts, keys, rows) of the store; or None."},
    {"foreign_answers", foreign_answers, METH_VARARGS,
     "foreign_answers(asked, keys, times, rows, source): (indexes, keys, values, times, end), up to "
     "a row that is not known; or None."},
    {"foreign_answered", foreign_answered, METH_O,
     "foreign_answered(answers): (sources, digests, values, None); or None."},
    {"foreign_partitions", foreign_partitions, METH_O,
     "foreign_partitions(messages): the partitions that they begin with."},
    {"partitions_of", partitions_of, METH_VARARGS,
     "partitions_of(keys, count): where Java's producer puts them."},
    {"are_documents", are_documents, METH_VARARGS,
     "are_documents(column, letters): whether all surely are JSON that begins with one of these."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "streamlet.kafka.native._native",
    .m_doc = "Records in columns, by the librdkafka that confluent-kafka brings.",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
