/* Collective algorithms by name: each writes a schedule for any rank count from 1. */
#ifndef TUTTI_RUNTIME_COLL_H
#define TUTTI_RUNTIME_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"

TUTTI_API_BEGIN

struct tutti_err;

struct tutti_algorithm_set;

struct tutti_coll_params {
    enum tutti_collective collective;
    enum tutti_dtype dtype;
    enum tutti_op op;
    uint32_t root;
    uint64_t count;         /* elements; see enum tutti_collective */
    uint32_t channel_count; /* parallel lanes that share the data; 0: 1 */
    uint64_t chunk_bytes; /* pipelining grain in bytes; 0: the algorithm's default (stated there) */
    uint32_t slice_count; /* messages a chunk is cut into; 0: 1 (the torus: see torus.c) */
    uint32_t slot_count;  /* messages in flight a connection; 0: TUTTI_SLOTS_DEFAULT */
    const struct tutti_algorithm_set *added; /* NULL, or algorithms beside those of the table */
};

/* One algorithm for one or more collectives. Price (latency terms, bytes a rank sends) and source
 * stand in the comment of its file and are held by a test. */
struct tutti_algorithm {
    size_t size;          /* sizeof(struct tutti_algorithm) */
    const char *name;     /* "ring", "halving-doubling", ... */
    const char *summary;  /* one line for people */
    uint32_t collectives; /* bit set: 1u << enum tutti_collective */
    /* Makes the schedule: a pure function, callable from any thread. Refuses (-TUTTI_EINVAL) a
     * shape that it does not fit, saying why. NULL: `schedule` is it. */
    int (*generate)(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                    struct tutti_schedule **ret, struct tutti_err *err);
    /* Or a schedule as it stands, for its own ranks, type, operator and root, and, if it is in
     * chunks, for any count that can be cut into them; see tutti_algorithm_add_schedule. */
    const struct tutti_schedule *schedule;
};

/* The table: all algorithms, in the order in which `-a all` tries them. *ret_count is its length.
 */
const struct tutti_algorithm *tutti_algorithms(size_t *ret_count);

/* Finds an algorithm that serves `collective`; else -TUTTI_EINVAL and the names that do. */
int tutti_algorithm_find(const char *name, enum tutti_collective collective,
                         const struct tutti_algorithm **ret, struct tutti_err *err);

/* Likewise, among those of params->added too, which serve params->collective. */
int tutti_algorithm_find_for(const char *name, const struct tutti_coll_params *params,
                             const struct tutti_algorithm **ret, struct tutti_err *err);

/* find_for, then generate. The algorithms of the table validate params (root in range, sizes
 * that do not overflow). */
int tutti_coll_generate(const char *algorithm, const struct tutti_coll_params *params,
                        const struct tutti_shape *shape, struct tutti_schedule **ret,
                        struct tutti_err *err);

/* ---- algorithms of one's own ----------------------------------------------------------------- */

/* A set of algorithms beside those of the table. It is filled, then handed to whoever finds
 * algorithms by name, tries all or writes schedules, in the `added` of struct tutti_coll_params: so
 * nothing is global, and two callers in one process do not see each other's. Once filled it is
 * const and may be shared by threads; it outlives what was made with it. */
int tutti_algorithm_set_new(struct tutti_algorithm_set **ret, struct tutti_err *err);
void tutti_algorithm_set_free(struct tutti_algorithm_set *set); /* NULL is a no-op */

/* Adds a copy of an algorithm. -TUTTI_EINVAL: a name that is taken, is no word or stands for
 * something else ("auto", "all", "nccl"); or a struct of another size than this library's. */
int tutti_algorithm_add(struct tutti_algorithm_set *set, const struct tutti_algorithm *algorithm,
                        struct tutti_err *err);

/* Adds a schedule as the algorithm `name`, which it takes over on success. Whether it can be played
 * is a matter of tutti_schedule_check: until then nothing may simulate or play it. */
int tutti_algorithm_add_schedule(struct tutti_algorithm_set *set, const char *name,
                                 struct tutti_schedule *schedule, struct tutti_err *err);

/* All algorithms that there are, those of the table first; NULL from the last on. `set` may be
 * NULL. / */
const struct tutti_algorithm *tutti_algorithm_at(const struct tutti_algorithm_set *set,
                                                 size_t index);

/* A plugin: a shared object that exports one of these under the name `tutti_plugin`. */
struct tutti_plugin {
    size_t size;                              /* sizeof(struct tutti_plugin) */
    uint32_t version;                         /* TUTTI_PLUGIN_VERSION */
    uint32_t algorithm_count;                 /* >= 1 */
    const struct tutti_algorithm *algorithms; /* [algorithm_count], copied */
};

/* Of the structs that a plugin and the library share: of this header, runtime/shape.h and
 * runtime/schedule.h. Whoever changes one of them raises it. */
enum { TUTTI_PLUGIN_VERSION = 1 };

/* Loads a plugin and adds its algorithms; it stays loaded as long as the set lives. *ret_first and
 * *ret_count (either may be NULL) say which they are, by index of tutti_algorithm_at. -TUTTI_EINVAL
 * names what is wrong with it; -TUTTI_ELACK: this library was built without dlopen. */
int tutti_algorithm_load(struct tutti_algorithm_set *set, const char *path, size_t *ret_first,
                         size_t *ret_count, struct tutti_err *err);

/* Whether this build can load plugins. */
bool tutti_algorithm_loads(void);

TUTTI_API_END

#endif
