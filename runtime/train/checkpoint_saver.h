/* Saving checkpoints, written behind: a rank waits for the copy of its pieces alone; a thread of
 * its own writes them, flushes them to the medium, and on the chief commits.
 *
 * Nothing here talks to other ranks: who trains agrees, by what it sends anyway each step, that the
 * shards of all ranks are written, and then lets the chief commit. All ranks use one folder of a
 * file system that they share. In the loop of training:
 *
 *     if (a save is due) {
 *         tutti_saver_wait(s);            the one before
 *         (all agree that it went well; the chief: tutti_saver_commit(s))
 *         tutti_saver_begin(s, ...);      copies, and returns
 *     }
 *     status = tutti_saver_poll(s, &state, err);     every step; here the thread's failures surface
 *     (all agree; all WRITTEN, the chief: tutti_saver_commit(s))
 *
 * and at the end wait, agree, commit, wait, close. A save that was not committed is not there: its
 * folder is removed by the chief's next commit or start. A failed one harms no older one. */
#ifndef TUTTI_RUNTIME_TRAIN_CHECKPOINT_SAVER_H
#define TUTTI_RUNTIME_TRAIN_CHECKPOINT_SAVER_H

#include "runtime/train/checkpoint.h"

struct tutti_saver; /* opaque; a rank's own, used by one thread at a time */

struct tutti_saver_options {
    const struct tutti_disk *disk; /* NULL: the system's */
    const char *dir;               /* made if it is not there; the folder above it must be */
    uint64_t incarnation; /* of all ranks; greater than any in `dir`, see next_incarnation */
    uint32_t rank;
    uint32_t rank_count;
    bool is_chief;
    uint32_t keep;        /* the newest so many; 0: all */
    uint64_t copy_bytes;  /* that the rank will save: taken and touched ahead; 0: at the first save,
                           * which then takes many times as long as others */
    const char *strategy; /* for who reads the manifest: a word */
    const struct tutti_checkpoint_model *model;
    const struct tutti_checkpoint_slot *slots; /* the same for all ranks */
    uint32_t slot_count;
};

/* Elements that a rank saves. */
struct tutti_saver_piece {
    uint32_t slot; /* index */
    uint64_t first;
    uint64_t count; /* 0: nothing */
    const void *data;
};

enum tutti_saver_state {
    TUTTI_SAVER_IDLE,    /* none has begun, or the last is committed or has failed */
    TUTTI_SAVER_WRITING, /* the rank's shard */
    TUTTI_SAVER_WRITTEN, /* it is on the medium */
};

/* Everything is copied but `disk`'s context. On the chief: sees that the folder can be written, and
 * removes what earlier saves left unfinished; no other rank may have begun a save before.
 * -TUTTI_EINVAL: what cannot be saved; -TUTTI_EIO: "cannot make folder 'ck': ...". */
int tutti_saver_open(const struct tutti_saver_options *options, struct tutti_saver **ret,
                     struct tutti_err *err);

/* Finishes what is being written and ends the thread; returns a failure that has not surfaced yet.
 * The saver is gone whatever it returns. NULL is a no-op. */
int tutti_saver_close(struct tutti_saver *saver, struct tutti_err *err);

/* Copies the rank's pieces, after the save before is written; returns before they are. All ranks
 * give the same step, greater than that of any save before (a failed one is tried again at a later
 * step), and the same scalars. No piece overlaps another; those of all ranks together hold each
 * element of each slot. If a failure has not surfaced yet, it does now and nothing begins. */
int tutti_saver_begin(struct tutti_saver *saver, uint64_t step,
                      const struct tutti_saver_piece *pieces, size_t piece_count,
                      const struct tutti_checkpoint_scalar *scalars, uint32_t scalar_count,
                      struct tutti_err *err);

/* How far the last save is; does not wait. A failure of the thread is returned once: that of the
 * shard, or on the chief of a commit; the state is then what it would be. */
int tutti_saver_poll(struct tutti_saver *saver, enum tutti_saver_state *ret, struct tutti_err *err);

/* Waits until nothing is being written or committed; returns a failure as poll does. */
int tutti_saver_wait(struct tutti_saver *saver, struct tutti_err *err);

/* The chief's, whose own shard is written, as are those of all others: sees that they belong
 * together, writes the manifest, and removes what is too old. Returns before that is done. On other
 * ranks it only ends the save. If a failure has not surfaced yet, it does now and nothing is
 * committed. */
int tutti_saver_commit(struct tutti_saver *saver, struct tutti_err *err);

/* Bytes that the last save copied. */
uint64_t tutti_saver_bytes(const struct tutti_saver *saver);

#endif
