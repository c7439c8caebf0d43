/* BLAKE2b (RFC 7693) of a column of bytes, without a key: what hashlib.blake2b gives. */
#include "native.h"

#define BLOCK 128

static const uint64_t START[8] = {
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179};

static const unsigned char SIGMA[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3}};

static uint64_t turned(uint64_t word, int by) { return word >> by | word << (64 - by); }

static uint64_t word_of(const unsigned char *data) {
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) word = word << 8 | data[i];
    return word;
}

#define MIX(a, b, c, d, x, y)           \
    do {                                \
        v[a] += v[b] + (x);             \
        v[d] = turned(v[d] ^ v[a], 32); \
        v[c] += v[d];                   \
        v[b] = turned(v[b] ^ v[c], 24); \
        v[a] += v[b] + (y);             \
        v[d] = turned(v[d] ^ v[a], 16); \
        v[c] += v[d];                   \
        v[b] = turned(v[b] ^ v[c], 63); \
    } while (0)

/* Takes a block, with which so many bytes have come; last: no other one follows. */
static void taken(uint64_t h[8], const unsigned char *block, uint64_t bytes, int last) {
    uint64_t v[16], m[16];
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = START[i];
    }
    v[12] ^= bytes; /* of which there are less than 2 ** 64 */
    if (last) v[14] = ~v[14];
    for (int i = 0; i < 16; i++) m[i] = word_of(block + 8 * i);
    for (int round = 0; round < 12; round++) {
        const unsigned char *s = SIGMA[round];
        MIX(0, 4, 8, 12, m[s[0]], m[s[1]]);
        MIX(1, 5, 9, 13, m[s[2]], m[s[3]]);
        MIX(2, 6, 10, 14, m[s[4]], m[s[5]]);
        MIX(3, 7, 11, 15, m[s[6]], m[s[7]]);
        MIX(0, 5, 10, 15, m[s[8]], m[s[9]]);
        MIX(1, 6, 11, 12, m[s[10]], m[s[11]]);
        MIX(2, 7, 8, 13, m[s[12]], m[s[13]]);
        MIX(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; i++) h[i] ^= v[i] ^ v[i + 8];
}

PyObject *blake2b_of(const char *data, Py_ssize_t bytes, int size) {
    const unsigned char *from = (const unsigned char *)data;
    uint64_t h[8];
    unsigned char block[BLOCK] = {0}, out[64];
    size_t length = (size_t)bytes, done = 0;
    memcpy(h, START, sizeof h);
    h[0] ^= 0x01010000 ^ (uint64_t)size;
    for (; length - done > BLOCK; done += BLOCK) taken(h, from + done, done + BLOCK, 0);
    if (length > done) memcpy(block, from + done, length - done);
    taken(h, block, length, 1);
    for (int i = 0; i < 64; i++) out[i] = (unsigned char)(h[i / 8] >> 8 * (i % 8));
    return PyBytes_FromStringAndSize((char *)out, size);
}

PyObject *blake2b_column(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *column;
    int size;
    if (!PyArg_ParseTuple(arguments, "O!i", &PyList_Type, &column, &size)) return NULL;
    if (size < 1 || size > 64) {
        PyErr_SetString(PyExc_ValueError, "a digest has 1 to 64 bytes");
        return NULL;
    }
    Py_ssize_t length = PyList_Size(column);
    PyObject *out = PyList_New(length);
    for (Py_ssize_t at = 0; out && at < length; at++) {
        PyObject *entry = PyList_GetItem(column, at), *made = NULL;
        char *data;
        Py_ssize_t bytes;
        if (entry == Py_None)
            made = Py_NewRef(Py_None);
        else if (entry && !PyBytes_AsStringAndSize(entry, &data, &bytes))
            made = blake2b_of(data, bytes, size);
        if (!made || PyList_SetItem(out, at, made) < 0) Py_CLEAR(out);
    }
    return out;
}
