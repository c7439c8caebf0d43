/* What the files of the extension have in common. */
#ifndef STREAMLET_NATIVE_H
#define STREAMLET_NATIVE_H

/* One build serves all versions of Python from 3.11 on, but for those without the GIL. */
#ifndef STREAMLET_FREE_THREADED
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "librdkafka.h"

/* The entry of a list at a place, held: another thread may take it out of the list. */
static inline PyObject *list_entry(PyObject *list, Py_ssize_t at) {
#ifdef Py_GIL_DISABLED
    return PyList_GetItemRef(list, at);
#else
    return Py_XNewRef(PyList_GetItem(list, at));
#endif
}

/* A number of Python's, NULL with an exception, as one of C's; below 0 with an exception where it
 * does not fit. Python is quicker with a long than with a long long. */
static inline int int64_of(PyObject *number, int64_t *found) {
#if LONG_MAX == INT64_MAX
    *found = number ? PyLong_AsLong(number) : -1;
#else
    *found = number ? PyLong_AsLongLong(number) : -1;
#endif
    return *found == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Writes so many bytes of a number, the most significant first, whatever the order of the machine. */
static inline void put_number(char *to, uint64_t number, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, number >>= 8) to[i] = (char)(number & 0xFF);
}

/* 1 if a list is as long as that of the keys; else 0, with an error. */
static inline int is_beside(PyObject *keys, PyObject *column) {
    if (PyList_Size(keys) == PyList_Size(column)) return 1;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "columns are of different lengths");
    return 0;
}

/* Both columns that a pass is given, which are beside one another; 0 with an exception if not. */
static inline int two_columns(PyObject *arguments, PyObject **first, PyObject **second) {
    return PyArg_ParseTuple(arguments, "O!O!", &PyList_Type, first, &PyList_Type, second) &&
           is_beside(*first, *second);
}

/* Of one interpreter; nothing is global. */
typedef struct {
    Library library;
    int loaded;
    PyObject *error;     /* confluent_kafka.KafkaError */
    PyObject *exception; /* confluent_kafka.KafkaException */
    PyObject *client_type;
} State;

typedef enum { NOTE_LOG, NOTE_ERROR, NOTE_FATAL, NOTE_STATISTICS, NOTE_FAILED } NoteKind;

/* What a callback of librdkafka was told, until Python hears of it. */
typedef struct Note {
    struct Note *before;
    NoteKind kind;
    int code;
    char *where;
    char text[];
} Note;

/* A client, which is one handle of librdkafka. Calls of several threads may be under way: the handle
 * goes with the last of them, once it is closed. */
typedef struct {
    PyObject_HEAD
    PyObject *module; /* the next two are parts of it */
    State *state;
    const Library *library;
    rd_kafka_t *handle;
    rd_kafka_queue_t *queue; /* of a consumer */
    PyObject *hear;
    PyObject *weak; /* references that do not keep it */
    _Atomic(Note *) notes;
    atomic_int users;
    atomic_int closed;
    atomic_int freed;
    pid_t process;
} Client;

/* library.c */
int library_load(State *state, const char *path);

/* errors.c: each sets an exception and returns NULL. */
PyObject *error_new(State *state, int code, const char *text);
PyObject *raise_code(State *state, int code, const char *what);
PyObject *raise_error(State *state, rd_kafka_error_t *error);

/* notes.c */
void notes_listen(const Library *library, rd_kafka_conf_t *conf, int kind);
int notes_heard(Client *self);
void notes_free(Client *self);

/* client.c */
extern PyType_Spec client_spec;
int client_enter(Client *self);
void client_leave(Client *self);
PyObject *client_done(Client *self, PyObject *result);
int int_of(PyObject *number, int *found);

/* partitions.c */
PyObject *client_incremental_assign(PyObject *self, PyObject *partitions);
PyObject *client_incremental_unassign(PyObject *self, PyObject *partitions);
PyObject *client_pause(PyObject *self, PyObject *partitions);
PyObject *client_resume(PyObject *self, PyObject *partitions);
PyObject *client_position(PyObject *self, PyObject *partitions);
PyObject *client_watermarks(PyObject *self, PyObject *arguments);
PyObject *client_look_up(PyObject *self, PyObject *arguments);

/* produce.c */
PyObject *client_produce(PyObject *self, PyObject *arguments);
PyObject *client_poll(PyObject *self, PyObject *timeout_ms);
PyObject *client_flush(PyObject *self, PyObject *timeout_ms);
PyObject *client_purge(PyObject *self, PyObject *wait);
PyObject *client_queued(PyObject *self, PyObject *nothing);

/* transactions.c */
PyObject *client_init_transactions(PyObject *self, PyObject *timeout_ms);
PyObject *client_begin_transaction(PyObject *self, PyObject *nothing);
PyObject *client_send_offsets(PyObject *self, PyObject *arguments);
PyObject *client_commit_transaction(PyObject *self, PyObject *timeout_ms);
PyObject *client_abort_transaction(PyObject *self, PyObject *timeout_ms);

/* origins.c */
PyObject *origins_packed(PyObject *module, PyObject *arguments);
PyObject *origins_cut(PyObject *module, PyObject *arguments);

/* prefixes.c */
PyObject *prefixes_packed(PyObject *module, PyObject *arguments);
PyObject *prefixes_runs(PyObject *module, PyObject *arguments);
PyObject *prefixes_cut(PyObject *module, PyObject *arguments);

/* tokens.c */
PyObject *client_set_token(PyObject *self, PyObject *arguments);
PyObject *client_token_failed(PyObject *self, PyObject *reason);

/* columns.c */
PyObject *encode_texts(PyObject *module, PyObject *column);
PyObject *decode_texts(PyObject *module, PyObject *column);
PyObject *pack_ints(PyObject *module, PyObject *column);
PyObject *unpack_ints(PyObject *module, PyObject *column);
PyObject *pack_floats(PyObject *module, PyObject *column);
PyObject *unpack_floats(PyObject *module, PyObject *column);
PyObject *all_of(PyObject *module, PyObject *arguments);
PyObject *partitions_of(PyObject *module, PyObject *arguments);

/* documents.c */
PyObject *are_documents(PyObject *module, PyObject *arguments);

/* flat.c */
PyObject *all_flat(PyObject *module, PyObject *column);
PyObject *flat_copies(PyObject *module, PyObject *column);
PyObject *document_copies(PyObject *module, PyObject *arguments);

/* merge.c */
PyObject *merge_order(PyObject *module, PyObject *arguments);
PyObject *merge_rounds(PyObject *module, PyObject *arguments);
PyObject *merge_places(PyObject *module, PyObject *arguments);
PyObject *entries_at(PyObject *module, PyObject *arguments);
PyObject *spread(PyObject *module, PyObject *arguments);
PyObject *order_of(PyObject *module, PyObject *column);

/* join_rows.c */
PyObject *join_add(PyObject *module, PyObject *arguments);
PyObject *join_find(PyObject *module, PyObject *arguments);
PyObject *join_pack(PyObject *module, PyObject *arguments);

/* rows.c */
PyObject *put_values(PyObject *module, PyObject *arguments);
PyObject *swap_values(PyObject *module, PyObject *arguments);
PyObject *put_times(PyObject *module, PyObject *arguments);
PyObject *highest_time(PyObject *module, PyObject *times);
PyObject *late_places(PyObject *module, PyObject *arguments);
PyObject *later_times(PyObject *module, PyObject *arguments);
PyObject *moved_times(PyObject *module, PyObject *arguments);
PyObject *timed_values(PyObject *module, PyObject *arguments);

/* sorting.c */
PyObject *sorted_rows(PyObject *module, PyObject *arguments);
PyObject *put_items(PyObject *module, PyObject *arguments);

/* foreign.c */
PyObject *foreign_digests(PyObject *module, PyObject *arguments);
PyObject *foreign_subscriptions(PyObject *module, PyObject *arguments);
PyObject *foreign_kept(PyObject *module, PyObject *arguments);
PyObject *foreign_answers(PyObject *module, PyObject *arguments);
PyObject *foreign_answered(PyObject *module, PyObject *raws);
PyObject *foreign_partitions(PyObject *module, PyObject *raws);

/* windows.c */
PyObject *count_windows(PyObject *module, PyObject *arguments);
PyObject *window_keys(PyObject *module, PyObject *arguments);

/* blake2.c */
PyObject *blake2b_of(const char *data, Py_ssize_t bytes, int size);
PyObject *blake2b_column(PyObject *module, PyObject *arguments);

/* consume.c */
PyObject *client_consume(PyObject *self, PyObject *arguments);

#endif
