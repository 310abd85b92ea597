/* Checkpoints: what lies in them, and reading them. Writing them: checkpoint_saver.h.
 *
 * What is saved is logical: slots (the weights, the optimiser's moments, ...), each the values of
 * all variables in the flat order of the model, in pieces of contiguous elements [first, first +
 * count) that whoever has them writes; and scalars (epoch, position in the data, seeds, loss scale,
 * ...). So what 4 ranks with a quarter of everything each have written is read by 2 that have all
 * of it: each reader asks for elements of a slot, and gets them from whatever shards hold them.
 *
 *     DIR/step-000120.3/            of step 120 in incarnation 3
 *         shard-000000 ...          one of each rank: a header of text, then its pieces' bytes
 *         manifest                  text: what is saved, all pieces, and a hash of everything
 *
 * A checkpoint without manifest does not exist: renaming `manifest.new` to it is the commit. Every
 * start of a run counts as an incarnation, so that a save never goes to a folder of an earlier one,
 * and "the newest" is that of the highest incarnation, then step: after a return to an older step
 * what was left behind is no longer the newest. Numbers in shards have the machine's byte order. */
#ifndef TUTTI_RUNTIME_TRAIN_CHECKPOINT_H
#define TUTTI_RUNTIME_TRAIN_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/data.h"

struct tutti_disk;
struct tutti_err;

enum {
    TUTTI_CHECKPOINT_DIMS_MAX = 8,
    TUTTI_CHECKPOINT_NAME_BYTES_MAX = 200, /* printable, without blanks and '#' */
    TUTTI_CHECKPOINT_VARIABLES_MAX = 1 << 20,
    TUTTI_CHECKPOINT_SLOTS_MAX = 64,
    TUTTI_CHECKPOINT_SCALARS_MAX = 256,
    TUTTI_CHECKPOINT_RANKS_MAX = 1 << 16,
    TUTTI_CHECKPOINT_PATH_BYTES = 4096,
};

#define TUTTI_CHECKPOINT_ELEMENTS_MAX (UINT64_C(1) << 56) /* of a slot */

/* Which one. */
struct tutti_checkpoint_id {
    uint64_t incarnation;
    uint64_t step;
};

struct tutti_checkpoint_variable {
    const char *name;
    uint32_t dim_count; /* 0: a single value */
    uint64_t dims[TUTTI_CHECKPOINT_DIMS_MAX];
};

/* Variables in their flat order. `hash` tells models of equal variables apart. */
struct tutti_checkpoint_model {
    const char *name;
    uint64_t hash;
    const struct tutti_checkpoint_variable *variables;
    uint32_t variable_count;
};

/* Whose the values of a slot are, and what becomes of each rank's own where another number of ranks
 * reads them. */
enum tutti_checkpoint_owner {
    TUTTI_OWNER_SHARED,    /* one value of each element, in whatever shard */
    TUTTI_OWNER_RANK_SUM,  /* each rank has all; rank q's are added to rank q modulo the new count:
                            * the sum over ranks stays (error feedback, accumulated gradients) */
    TUTTI_OWNER_RANK_MEAN, /* likewise; all get the mean (weights between two averagings) */
    TUTTI_OWNER_RANK_DROP, /* likewise; all get 0 */
    TUTTI_OWNER_COUNT
};

/* "shared", "sum", "mean", "drop" */
const char *tutti_checkpoint_owner_name(enum tutti_checkpoint_owner owner);

struct tutti_checkpoint_slot {
    const char *name;
    enum tutti_dtype dtype;
    enum tutti_checkpoint_owner owner;
    uint64_t elements; /* 0: as many as the model has */
};

struct tutti_checkpoint_scalar {
    const char *name;
    bool is_real;
    uint64_t integer;
    double real; /* kept to the bit */
};

/* Elements of all variables together. */
uint64_t tutti_checkpoint_elements(const struct tutti_checkpoint_model *model);

/* -TUTTI_EINVAL unless `there` has the variables of `here`, in that order, and its hash; the
 * message names the first that differs, with its shapes there and here. */
int tutti_checkpoint_same_model(const struct tutti_checkpoint_model *there,
                                const struct tutti_checkpoint_model *here, struct tutti_err *err);

/* ---- finding ----------------------------------------------------------------------------------
 *
 * A `disk` of NULL is the system's. */

/* All that are committed, newest first; `*ret` is the caller's to free(). No folder: none. */
int tutti_checkpoint_list(const struct tutti_disk *disk, const char *dir,
                          struct tutti_checkpoint_id **ret, size_t *ret_count,
                          struct tutti_err *err);

/* A number greater than that of every save in the folder, finished or not; 0 where there is none.
 * For the chief, who gives it to the others. */
int tutti_checkpoint_next_incarnation(const struct tutti_disk *disk, const char *dir, uint64_t *ret,
                                      struct tutti_err *err);

/* "DIR/step-000120.3"; -TUTTI_EINVAL if that is longer than `ret`. */
int tutti_checkpoint_path(const char *dir, struct tutti_checkpoint_id id,
                          char ret[TUTTI_CHECKPOINT_PATH_BYTES], struct tutti_err *err);

/* ---- reading ----------------------------------------------------------------------------------*/

struct tutti_checkpoint; /* opaque; used by one thread at a time */

struct tutti_checkpoint_source {
    const struct tutti_disk *disk;
    const struct tutti_checkpoint_model *model; /* NULL: whatever it is */
    bool verify; /* read all of it and compare all hashes; sizes are always compared */
    void (*note)(void *context, const char *line); /* a damaged one is passed over; or NULL */
    void *context;
};

/* The newest complete one in the folder that is sound; older ones are tried in turn, each damaged
 * one being told to `note` in one line: file, and what is wrong with it. `*ret` is NULL and the
 * status 0 where there is none. -TUTTI_EINVAL: the newest sound one is another model's. */
int tutti_checkpoint_open_newest(const struct tutti_checkpoint_source *source, const char *dir,
                                 struct tutti_checkpoint **ret, struct tutti_err *err);

/* That very one: `path` is its folder. -TUTTI_ECHECK: it is damaged, or there is none. */
int tutti_checkpoint_open(const struct tutti_checkpoint_source *source, const char *path,
                          struct tutti_checkpoint **ret, struct tutti_err *err);

void tutti_checkpoint_close(struct tutti_checkpoint *checkpoint);

/* Of a checkpoint that is open; all is its own. */
struct tutti_checkpoint_id tutti_checkpoint_id(const struct tutti_checkpoint *checkpoint);
const char *tutti_checkpoint_folder(const struct tutti_checkpoint *checkpoint);
const struct tutti_checkpoint_model *
tutti_checkpoint_model(const struct tutti_checkpoint *checkpoint);
const char *tutti_checkpoint_strategy(const struct tutti_checkpoint *checkpoint);
uint32_t tutti_checkpoint_rank_count(const struct tutti_checkpoint *checkpoint);

/* NULL: it has none of that name. */
const struct tutti_checkpoint_slot *tutti_checkpoint_slot(const struct tutti_checkpoint *checkpoint,
                                                          const char *name);
const struct tutti_checkpoint_scalar *
tutti_checkpoint_scalar(const struct tutti_checkpoint *checkpoint, const char *name);

/* Who reads: elements [first, first + count) of a slot. A slot of ranks' own is read as `rank` of
 * `rank_count` has it (see tutti_checkpoint_owner); a shared one is the same for all. */
struct tutti_checkpoint_want {
    const char *slot;
    enum tutti_dtype dtype;
    uint64_t first;
    uint64_t count;
    uint32_t rank;
    uint32_t rank_count;
};

/* Every piece that is touched is read whole and its hash compared. -TUTTI_EINVAL: there is no such
 * slot, it has another type or fewer elements; -TUTTI_ECHECK: a shard is damaged, after which `dst`
 * holds nothing of use. */
int tutti_checkpoint_read(struct tutti_checkpoint *checkpoint,
                          const struct tutti_checkpoint_want *want, void *dst,
                          struct tutti_err *err);

/* What becomes of ranks' own for another number of readers, as a line to be told: "slot 'error':
 * those of 4 ranks are summed into 2". False: all is read as it was written. */
bool tutti_checkpoint_regroups(const struct tutti_checkpoint_slot *slot, uint32_t there_count,
                               uint32_t here_count, char *buf, size_t buf_bytes);

#endif
