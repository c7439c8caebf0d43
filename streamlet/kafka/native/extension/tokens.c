/* Tokens that a client logs in with. */
#include "native.h"

/* The texts of a tuple, as bytes of Python's in *held and as an array that refers to them. */
static const char **texts_of(PyObject *texts, PyObject **held) {
    Py_ssize_t count = PyTuple_Size(texts);
    const char **all = malloc((size_t)(count + 1) * sizeof(*all));
    *held = all ? PyTuple_New(count) : PyErr_NoMemory();
    for (Py_ssize_t i = 0; *held && i < count; i++) {
        PyObject *one = PyUnicode_AsUTF8String(PyTuple_GetItem(texts, i));
        if (one) all[i] = PyBytes_AsString(one);
        if (!one || PyTuple_SetItem(*held, i, one) < 0) Py_CLEAR(*held);
    }
    if (*held) return all;
    free(all);
    return NULL;
}

PyObject *client_set_token(PyObject *raw, PyObject *arguments) {
    Client *self = (Client *)raw;
    const char *text, *principal;
    long long expires_ms;
    PyObject *extensions, *held;
    char why[512] = "";
    if (!PyArg_ParseTuple(arguments, "sLsO!", &text, &expires_ms, &principal, &PyTuple_Type,
                          &extensions))
        return NULL;
    const char **pairs = texts_of(extensions, &held);
    if (!pairs) return NULL;
    PyObject *result = NULL;
    if (!client_enter(self)) {
        int code = self->library->oauthbearer_set_token(self->handle, text, expires_ms, principal,
                                                        pairs, (size_t)PyTuple_Size(extensions),
                                                        why, sizeof why);
        result = code ? raise_code(self->state, code, why) : Py_NewRef(Py_None);
        client_leave(self); /* on a thread of its own: what there is to hear is for who polls */
    }
    free(pairs);
    Py_DECREF(held);
    return result;
}

PyObject *client_token_failed(PyObject *raw, PyObject *reason) {
    Client *self = (Client *)raw;
    PyObject *text = PyUnicode_AsUTF8String(reason);
    if (!text) return NULL;
    PyObject *result = NULL;
    if (!client_enter(self)) {
        int code = self->library->oauthbearer_set_token_failure(self->handle,
                                                                PyBytes_AsString(text));
        result = code ? raise_code(self->state, code, NULL) : Py_NewRef(Py_None);
        client_leave(self);
    }
    Py_DECREF(text);
    return result;
}
