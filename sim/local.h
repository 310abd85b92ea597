/* A machine as ranks that run on its own processors feel it: what their passes over memory cost, by
 * where the bytes lie when a pass begins, and what it costs to hand a message on.
 *
 * A rank is a thread that does one piece of work at a time, as the backend `threads` has it: copies
 * what it receives straight from the sender's memory, reduces while it receives, and writes results
 * to where they will be received. A pass takes, for each operand, its bytes at a rate that depends
 * on where they are: in the processor's own cache, in that of another processor which has written
 * them, in a cache that all share, or in memory. Caches keep what was touched last, so the model
 * walks the schedule and remembers when which processor touched which bytes. Passes that run at the
 * same time share what lies beyond their own caches. Ranks of other processes are reached through
 * the system, piece by piece: who sends copies to it, who receives from it; or, where a library of
 * one host does it so, who receives copies straight from the memory of who sends.
 *
 * The text, one value a line; # begins a comment:
 *   tutti local 1
 *   backend WORD, machine TEXT..., date TEXT..., processors N,
 *   processes N, ranks N, copies 1|2 (of a message between processes; 2 if not said)
 *   apart_ns VALUE   how far apart the processors lay when it was measured, if that was looked at:
 *                    from one's storing a word until the other sees it
 *   NAME VALUE [LOW HIGH] [open]   a parameter, its 95 % interval; open: the data leave it open
 */
#ifndef TUTTI_SIM_LOCAL_H
#define TUTTI_SIM_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_cuda_work;
struct tutti_err;
struct tutti_schedule;

/* In units for people, as the names say; all are above 0. */
enum tutti_local_parameter {
    TUTTI_LOCAL_LAUNCH,       /* from the common start to the end of ranks with nothing to do */
    TUTTI_LOCAL_LAUNCH_ALONE, /* the same of one rank */
    TUTTI_LOCAL_HOP,          /* from a rank's doing something until another sees it */
    TUTTI_LOCAL_STEP,         /* to begin and end a step, of the rank's own time */
    TUTTI_LOCAL_READ_OWN,     /* rates of one processor, by operand and place of its bytes */
    TUTTI_LOCAL_READ_OTHER,   /* written by another processor and still in its cache */
    TUTTI_LOCAL_READ_TWIN,    /* only read by another processor, but in its cache */
    TUTTI_LOCAL_READ_SHARED,  /* in the cache that all share */
    /* Written by another processor, whose own cache has cast it out: from the shared cache, or,
     * where each of the two has one of those, from the other's. */
    TUTTI_LOCAL_READ_CAST,
    TUTTI_LOCAL_READ_MEMORY,
    TUTTI_LOCAL_WRITE_OWN,
    TUTTI_LOCAL_WRITE_OTHER, /* another processor's cache has them too */
    TUTTI_LOCAL_WRITE_SHARED,
    TUTTI_LOCAL_WRITE_CAST, /* it has had them too, but its own cache has cast them out */
    TUTTI_LOCAL_WRITE_MEMORY,
    TUTTI_LOCAL_COPY_PAST,    /* stores past the cache, of copies */
    TUTTI_LOCAL_REDUCE_PAST,  /* and of reductions, which go block by block */
    TUTTI_LOCAL_PUSH,         /* results written to a second place, besides writing there */
    TUTTI_LOCAL_OWN_CACHE,    /* how much of what was touched last a processor's cache keeps */
    TUTTI_LOCAL_SHARED_CACHE, /* and the one of all */
    TUTTI_LOCAL_ALL_SHARED,   /* rates of all processors together, out of the shared cache */
    TUTTI_LOCAL_ALL_MEMORY,   /* and to and from memory */
    TUTTI_LOCAL_TOGETHER,     /* speed of a processor while others work: 1, or less where two of
                                 them are threads of one core */
    /* Between processes alone: what a message costs beside what it reads and writes in the buffers
     * of the ranks. */
    TUTTI_LOCAL_SEND_NEAR, /* while little is under way */
    TUTTI_LOCAL_SEND_FAR,
    TUTTI_LOCAL_TAKE_NEAR,
    TUTTI_LOCAL_TAKE_FAR,
    TUTTI_LOCAL_CALL, /* for each piece, here and there */
    TUTTI_LOCAL_NEAR, /* how much is little: about what a cache holds */
    /* Of messages that the system hands over as the pages that they lie in, so that who receives
     * them copies them from there; beside TUTTI_LOCAL_CALL. */
    TUTTI_LOCAL_LEND,
    TUTTI_LOCAL_TAKE_LENT,
    TUTTI_LOCAL_TAKE_MEMORY, /* the system's copy, in place of READ_MEMORY */
    /* Of ranks on a GPU, whose lanes are blocks of threads, and of these alone. Bytes are those
     * read and written. */
    TUTTI_LOCAL_BLOCK_LAUNCH, /* from the launch until its end is seen, with nothing to do */
    TUTTI_LOCAL_BLOCK_HOP,    /* from storing a counter until another block has seen it */
    /* From storing a line, data that carry their own mark, until another block has done what waits
     * for it, beside the bytes. */
    TUTTI_LOCAL_BLOCK_LINE,
    TUTTI_LOCAL_BLOCK_STEP,   /* to begin and end any other operation */
    TUTTI_LOCAL_BLOCK_COPY,   /* rate of a block of 512 threads with one source */
    TUTTI_LOCAL_BLOCK_ADD,    /* with two or three, */
    TUTTI_LOCAL_BLOCK_SUM,    /* and with more */
    TUTTI_LOCAL_BLOCK_MEMORY, /* rate of all blocks together, of what no cache keeps */
    TUTTI_LOCAL_BLOCK_SHARED, /* and of what the cache of all keeps */
    TUTTI_LOCAL_BLOCK_CACHE,  /* how much that is */
    TUTTI_LOCAL_COUNT
};

enum { TUTTI_LOCAL_TEXT_BYTES = 96, TUTTI_LOCAL_RANKS_MAX = 64 };

struct tutti_local_value {
    double value;
    double low; /* the 95 % interval; NAN, both: not known */
    double high;
    bool open; /* the data leave it open: it is what it was before they were seen */
};

struct tutti_local {
    char backend[16]; /* "threads" */
    char machine[TUTTI_LOCAL_TEXT_BYTES];
    char date[TUTTI_LOCAL_TEXT_BYTES];
    uint32_t processor_count; /* of a GPU: multiprocessors */
    uint32_t process_count;   /* that the ranks are divided among, as runtime/group.h does */
    uint32_t rank_count;      /* that it was measured with */
    bool direct;              /* messages between processes are copied once, by who receives them */
    int graph; /* cuda, in no file: 0 as the backend chooses, > 0 by graphs, < 0 without */
    uint64_t past_cache_bytes; /* passes from this size on store past the cache */
    double apart_ns;           /* of its processors when it was measured; 0: not known */
    struct tutti_local_value values[TUTTI_LOCAL_COUNT];
};

const char *tutti_local_name(enum tutti_local_parameter parameter); /* "hop_us" */
/* Whether it says something of this machine: those between processes, if it has several. */
bool tutti_local_has(const struct tutti_local *local, enum tutti_local_parameter parameter);
const char *tutti_local_says(enum tutti_local_parameter parameter); /* a few words */
/* The number nearest to `value` that may stand in a text for it; NAN stays NAN. */
double tutti_local_within(enum tutti_local_parameter parameter, double value);

/* What is to be expected of a machine of which nothing is known, for a fit to begin with. The
 * backend is "threads"; what a machine of another has beside is guessed as well. */
struct tutti_local tutti_local_guess(void);

/* Reads the text; `name` is used in messages, which name the line. -TUTTI_EINVAL. */
int tutti_local_parse(const char *name, const char *text, size_t bytes, struct tutti_local *ret,
                      struct tutti_err *err);
/* Writes it; parse(print(m)) prints the same. *ret is freed by the caller with free(). */
int tutti_local_print(const struct tutti_local *local, char **ret, struct tutti_err *err);

/* On a GPU instead a lane is a block of threads of its own: it does its operations one after the
 * other, waits for what others have stored, and moves bytes at its own rate, or at its part of what
 * all blocks have together, whichever is less. What schedules become there (runtime/cuda_work.h) is
 * played on a virtual clock. */

/* A schedule to be timed, looked through once; then timed on as many machines as need be. */
struct tutti_local_play;
/* -TUTTI_ELACK for one too large to be looked at step by step, or of too many ranks. The schedule
 * is borrowed. */
int tutti_local_play_open(const struct tutti_schedule *schedule, uint32_t processor_count,
                          struct tutti_local_play **ret, struct tutti_err *err);
/* The same of what a GPU plays, which is borrowed. */
int tutti_local_play_open_blocks(const struct tutti_cuda_work *work, struct tutti_local_play **ret,
                                 struct tutti_err *err);
void tutti_local_play_close(struct tutti_local_play *play); /* NULL is a no-op */

/* From the common start to the last rank's end, caches being what a play before has left. The same
 * machine gives the same picosecond. */
int tutti_local_time(struct tutti_local_play *play, const struct tutti_local *local,
                     tutti_ps *ret_ps, struct tutti_err *err);

TUTTI_API_END

#endif
