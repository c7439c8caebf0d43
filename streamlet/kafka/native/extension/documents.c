/* JSON documents that are looked at and not read: whether a decoder of any document takes them. A
 * yes is certain. A no says only that the decoder has to tell: of very deep documents, long numbers
 * and halves of surrogate pairs, too. streamlet/columnwise.py says what becomes of the answer. */
#include "native.h"

/* Levels, digits of a whole number, bytes of any number and digits of an exponent, at most. */
enum { DEEPEST = 60, MOST_DIGITS = 18, LONGEST_NUMBER = 64, MOST_EXPONENT = 2 };

/* A place in a document; NULL: it is none. */
typedef const unsigned char *Place;

static Place behind_spaces(Place at, Place end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

static Place behind_digits(Place at, Place end) {
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

static Place behind_number(Place at, Place end) {
    Place start = at;
    int whole = 1;
    if (at < end && *at == '-') at++;
    Place first = at;
    at = behind_digits(at, end);
    if (at == first || at - first > MOST_DIGITS || (*first == '0' && at - first > 1)) return NULL;
    if (at < end && *at == '.') {
        first = at + 1;
        at = behind_digits(first, end);
        if (at == first) return NULL;
        whole = 0;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        first = at;
        at = behind_digits(at, end);
        if (at == first || at - first > MOST_EXPONENT) return NULL;
        whole = 0;
    }
    return whole || at - start <= LONGEST_NUMBER ? at : NULL;
}

/* Behind a letter of several bytes of strict UTF-8. */
static Place behind_letter(Place at, Place end) {
    unsigned char first = *at++;
    unsigned char least = 0x80, most = 0xBF; /* of the second byte */
    int more;
    if (first >= 0xC2 && first <= 0xDF) {
        more = 1;
    } else if (first >= 0xE0 && first <= 0xEF) {
        more = 2;
        if (first == 0xE0) least = 0xA0;
        if (first == 0xED) most = 0x9F; /* beyond are surrogates */
    } else if (first >= 0xF0 && first <= 0xF4) {
        more = 3;
        if (first == 0xF0) least = 0x90;
        if (first == 0xF4) most = 0x8F;
    } else {
        return NULL;
    }
    if (end - at < more) return NULL;
    for (; more; more--, at++, least = 0x80, most = 0xBF)
        if (*at < least || *at > most) return NULL;
    return at;
}

/* Behind the four digits of an escape, of no surrogate. */
static Place behind_hexadecimal(Place at, Place end) {
    unsigned int code = 0;
    if (end - at < 4) return NULL;
    for (int i = 0; i < 4; i++, at++) {
        unsigned char letter = *at | 0x20; /* digits stay as they are */
        if (*at >= '0' && *at <= '9')
            code = code << 4 | (unsigned int)(*at - '0');
        else if (letter >= 'a' && letter <= 'f')
            code = code << 4 | (unsigned int)(letter - 'a' + 10);
        else
            return NULL;
    }
    return code < 0xD800 || code > 0xDFFF ? at : NULL;
}

static Place behind_escape(Place at, Place end) {
    if (at == end) return NULL;
    if (*at == 'u') return behind_hexadecimal(at + 1, end);
    return *at && strchr("\"\\/bfnrt", *at) ? at + 1 : NULL;
}

/* True if none of eight bytes ends a string, begins an escape or a longer letter, or is control. */
static int are_plain(Place at) {
    const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    uint64_t eight;
    memcpy(&eight, at, sizeof eight);
    uint64_t quotes = eight ^ ones * '"', slashes = eight ^ ones * '\\';
    return !((eight | (eight - ones * ' ') | (quotes - ones) | (slashes - ones)) & tops);
}

/* Behind a string, from behind its first quotation mark. */
static Place behind_string(Place at, Place end) {
    while (at && at < end) {
        if (end - at >= 8 && are_plain(at))
            at += 8;
        else if (*at == '"')
            return at + 1;
        else if (*at == '\\')
            at = behind_escape(at + 1, end);
        else if (*at < ' ')
            return NULL;
        else
            at = *at < 0x80 ? at + 1 : behind_letter(at, end);
    }
    return NULL;
}

static Place behind_word(Place at, Place end, const char *word) {
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && !memcmp(at, word, length) ? at + length : NULL;
}

static Place behind_scalar(Place at, Place end) {
    switch (*at) {
    case '"':
        return behind_string(at + 1, end);
    case 't':
        return behind_word(at, end, "true");
    case 'f':
        return behind_word(at, end, "false");
    case 'n':
        return behind_word(at, end, "null");
    default:
        return behind_number(at, end);
    }
}

/* Where the value behind a name begins. */
static Place behind_name(Place at, Place end) {
    if (at == end || *at != '"') return NULL;
    at = behind_string(at + 1, end);
    if (!at) return NULL;
    at = behind_spaces(at, end);
    return at < end && *at == ':' ? behind_spaces(at + 1, end) : NULL;
}

/* True of a document that begins with one of the letters. */
static int is_document(Place at, Place end, const char *letters) {
    uint64_t objects = 0; /* a bit for each level, the lowest of the innermost: it is an object */
    int depth = 0;
    at = behind_spaces(at, end);
    if (at == end || !*at || !strchr(letters, *at)) return 0;
    for (;;) { /* a value begins here */
        if (at == end) return 0;
        int object = *at == '{';
        if (object || *at == '[') {
            if (++depth > DEEPEST) return 0;
            objects = objects << 1 | (uint64_t)object;
            at = behind_spaces(at + 1, end);
            if (at == end) return 0;
            if (*at != (object ? '}' : ']')) {
                if (object && !(at = behind_name(at, end))) return 0;
                continue;
            }
        } else {
            if (!(at = behind_scalar(at, end))) return 0;
            if (depth) at = behind_spaces(at, end);
        }
        for (;; at = behind_spaces(at + 1, end)) { /* behind a value, or at the end of its level */
            if (!depth) return behind_spaces(at, end) == end;
            if (at == end) return 0;
            if (*at == ',') break;
            if (*at != (objects & 1 ? '}' : ']')) return 0;
            objects >>= 1;
            depth--;
        }
        at = behind_spaces(at + 1, end);
        if (objects & 1 && !(at = behind_name(at, end))) return 0;
    }
}

PyObject *are_documents(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *column;
    const char *letters;
    if (!PyArg_ParseTuple(arguments, "O!s", &PyList_Type, &column, &letters)) return NULL;
    Py_ssize_t length = PyList_Size(column);
    for (Py_ssize_t at = 0; at < length; at++) {
        PyObject *entry = list_entry(column, at);
        if (!entry) return NULL;
        char *data;
        Py_ssize_t size;
        int is_one = 0;
        if (Py_TYPE(entry) == &PyBytes_Type && !PyBytes_AsStringAndSize(entry, &data, &size))
            is_one = is_document((Place)data, (Place)data + size, letters);
        Py_DECREF(entry);
        if (!is_one) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}
