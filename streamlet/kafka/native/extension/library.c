/* The library that confluent-kafka has loaded, found by the path of its own extension. */
#include "native.h"

#include <dlfcn.h>

/* The first version whose API has all of it, and the one that would be another API. */
enum { FIRST = 0x020d0000, NEXT = 0x03000000 };

int library_load(State *state, const char *path) {
    /* It is there already: this gives its handle once more, and that of what it is linked to. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        PyErr_Format(PyExc_ImportError, "%s", dlerror());
        return -1;
    }
    Library found; /* taken as a whole or not at all: clients may have the one before */
#define FIND(result, name, arguments) \
    *(void **)&found.name = dlsym(handle, "rd_kafka_" #name); \
    if (!found.name) { \
        PyErr_SetString(PyExc_ImportError, "librdkafka does not show rd_kafka_" #name); \
        return -1; \
    }
    LIBRDKAFKA(FIND)
#undef FIND
    int version = found.version();
    if (version < FIRST || version >= NEXT) {
        PyErr_Format(PyExc_ImportError, "librdkafka %s is not of versions 2.13 to 2.x",
                     found.version_str());
        return -1;
    }
    state->library = found;
    state->loaded = 1;
    return 0;
}
