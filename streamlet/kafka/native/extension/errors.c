/* Errors of librdkafka as those of confluent-kafka, which the rest of streamlet knows. */
#include "native.h"

PyObject *error_new(State *state, int code, const char *text) {
    return PyObject_CallFunction(state->error, "iN", code,
                                 PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"));
}

static PyObject *raise(State *state, PyObject *error) {
    if (error) {
        PyErr_SetObject(state->exception, error);
        Py_DECREF(error);
    }
    return NULL;
}

PyObject *raise_code(State *state, int code, const char *what) {
    return raise(state, error_new(state, code, what ? what : state->library.err2str(code)));
}

PyObject *raise_error(State *state, rd_kafka_error_t *error) {
    const Library *library = &state->library;
    const char *text = library->error_string(error);
    PyObject *made = PyObject_CallFunction(
        state->error, "iNOOO", library->error_code(error),
        PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"),
        library->error_is_fatal(error) ? Py_True : Py_False,
        library->error_is_retriable(error) ? Py_True : Py_False,
        library->error_txn_requires_abort(error) ? Py_True : Py_False);
    library->error_destroy(error);
    return raise(state, made);
}
