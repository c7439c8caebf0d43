/* What librdkafka tells: its log, errors of the whole client, statistics. Its callbacks run amid a
 * call, without the GIL, and of the log on any thread. So they only note it, and Python hears of it
 * when the call has ended. */
#include "native.h"

static void note(Client *self, NoteKind kind, int code, const char *where, const char *text) {
    size_t length = strlen(text) + 1, rest = where ? strlen(where) + 1 : 0;
    Note *note = malloc(sizeof(Note) + length + rest);
    if (!note) return; /* without memory there is nobody to tell */
    note->kind = kind;
    note->code = code;
    memcpy(note->text, text, length);
    note->where = where ? memcpy(note->text + length, where, rest) : NULL;
    note->before = atomic_load(&self->notes);
    while (!atomic_compare_exchange_weak(&self->notes, &note->before, note)) {
    }
}

/* A log callback is given the handle alone. This leads from it to the client; it is an address within
 * the one library that the process has, and so the same for all interpreters. */
static _Atomic(void *) opaque_of;

typedef void *opaque_function(const rd_kafka_t *);

static void on_log(const rd_kafka_t *handle, int level, const char *facility, const char *text) {
    opaque_function *of = (opaque_function *)atomic_load(&opaque_of);
    note(of(handle), NOTE_LOG, level, facility, text);
}

static void on_error(rd_kafka_t *handle, int code, const char *reason, void *opaque) {
    Client *self = opaque;
    char why[512];
    if (code == RD_ERR_FATAL) {
        code = self->library->fatal_error(handle, why, sizeof why);
        note(self, NOTE_FATAL, code, NULL, why);
    } else {
        note(self, NOTE_ERROR, code, NULL, reason ? reason : "");
    }
}

static int on_statistics(rd_kafka_t *handle, char *json, size_t length, void *opaque) {
    (void)handle;
    (void)length; /* it ends with a NUL */
    note(opaque, NOTE_STATISTICS, 0, NULL, json);
    return 0;
}

/* Of each record that is not delivered; the others are counted by nobody. */
static void on_delivery(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque) {
    (void)handle;
    Client *self = opaque;
    if (!message->err) return;
    const char *topic = message->rkt ? self->library->topic_name(message->rkt) : "";
    note(self, NOTE_FAILED, message->err, topic, self->library->err2str(message->err));
}

void notes_listen(const Library *library, rd_kafka_conf_t *conf, int kind) {
    atomic_store(&opaque_of, (void *)library->opaque);
    library->conf_set(conf, "log.queue", "true", NULL, 0);
    library->conf_set_log_cb(conf, on_log);
    library->conf_set_error_cb(conf, on_error);
    library->conf_set_stats_cb(conf, on_statistics);
    if (kind == RD_PRODUCER) library->conf_set_dr_msg_cb(conf, on_delivery);
}

/* The notes so far, the first first. */
static Note *taken(Client *self) {
    Note *one = atomic_exchange(&self->notes, NULL), *first = NULL;
    while (one) {
        Note *before = one->before;
        one->before = first;
        first = one;
        one = before;
    }
    return first;
}

static void put_back(Client *self, Note *one) {
    while (one) {
        Note *next = one->before;
        one->before = atomic_load(&self->notes);
        while (!atomic_compare_exchange_weak(&self->notes, &one->before, one)) {
        }
        one = next;
    }
}

static PyObject *text_or_none(const char *text) {
    if (!text) Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

int notes_heard(Client *self) {
    if (!atomic_load(&self->notes) || !self->hear) return 0;
    Note *one = taken(self);
    while (one) {
        Note *next = one->before;
        PyObject *answer = PyObject_CallFunction(self->hear, "iiNN", (int)one->kind, one->code,
                                                 text_or_none(one->where), text_or_none(one->text));
        free(one);
        if (!answer) {
            put_back(self, next);
            return -1;
        }
        Py_DECREF(answer);
        one = next;
    }
    return 0;
}

void notes_free(Client *self) {
    Note *one = taken(self);
    while (one) {
        Note *next = one->before;
        free(one);
        one = next;
    }
}
