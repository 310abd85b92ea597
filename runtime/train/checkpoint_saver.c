/* A rank's saver: the copy of what it saves, and the thread that writes it. */
#include "runtime/train/checkpoint_saver.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/train/checkpoint_commit.h"
#include "runtime/train/checkpoint_disk.h"
#include "runtime/train/checkpoint_folder.h"

/* What is being written: the caller's until it is queued, then the thread's until it is done. */
struct shard {
    struct tutti_checkpoint_id id;
    struct tutti_checkpoint_text head; /* of the manifest */
    struct tutti_checkpoint_piece *pieces;
    size_t piece_count;
    size_t piece_capacity;
    uint8_t *copy;
    size_t copy_bytes;
    size_t copy_capacity;
};

/* What is being committed; likewise. */
struct commit {
    struct tutti_checkpoint_id id;
    struct tutti_checkpoint_text head;
};

struct tutti_saver {
    struct tutti_arena *arena; /* of what the options point to */
    struct tutti_disk disk;
    const char *dir;
    struct tutti_checkpoint_head head; /* but step and scalars */
    uint32_t rank;
    uint32_t keep;
    bool is_chief;
    bool has_begun;
    bool touches; /* the copy, first of all: begin() waits for it as for a shard */
    uint64_t last_step;
    struct shard shard;
    struct commit commit;
    bool has_thread;
    pthread_t thread;
    pthread_cond_t queued;
    pthread_cond_t done;
    pthread_mutex_t lock; /* guards all below */
    bool stop;
    bool shard_queued; /* until it is done */
    bool commit_queued;
    enum tutti_saver_state state;
    int status; /* a failure that has not surfaced */
    struct tutti_err failure;
};

/* In pages of 2 MiB where the system grants them: the first copy touches every page, and small ones
 * cost more than the copy. */
static uint8_t *copy_memory(size_t bytes, size_t *ret_capacity)
{
    const size_t huge = (size_t)2 << 20;
    size_t alignment = bytes < huge ? 64 : huge;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    uint8_t *memory = aligned_alloc(alignment, rounded);

    if (memory != NULL && rounded >= huge)
        (void)madvise(memory, rounded, MADV_HUGEPAGE);
    *ret_capacity = memory == NULL ? 0 : rounded;
    return memory;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int write_shard(struct tutti_saver *s, struct tutti_err *err)
{
    struct tutti_checkpoint_head head = s->head;
    const struct tutti_checkpoint_save save = {&s->disk, s->dir, &head, s->shard.head.text,
                                               s->shard.head.bytes};

    head.id = s->shard.id;
    return tutti_checkpoint_write_shard(&save, s->rank, s->shard.pieces, s->shard.piece_count,
                                        s->shard.copy, err);
}

static int commit_save(struct tutti_saver *s, struct tutti_err *err)
{
    struct tutti_checkpoint_head head = s->head;
    const struct tutti_checkpoint_save save = {&s->disk, s->dir, &head, s->commit.head.text,
                                               s->commit.head.bytes};
    int status;

    head.id = s->commit.id;
    status = tutti_checkpoint_commit(&save, err);
    if (status < 0)
        return status;
    status = tutti_checkpoint_clean(&s->disk, s->dir, head.id, s->keep, err);
    return status < 0 ? tutti_wrap(err, status,
                                   "step %" PRIu64 " is saved, but older ones are not "
                                   "removed",
                                   head.id.step)
                      : 0;
}

static void *write_behind(void *data)
{
    struct tutti_saver *s = data;

    if (s->touches)
        memset(s->shard.copy, 0, s->shard.copy_capacity);
    pthread_mutex_lock(&s->lock);
    if (s->touches)
        s->shard_queued = false;
    pthread_cond_broadcast(&s->done);
    for (;;) {
        struct tutti_err err = {""};
        bool commits = s->commit_queued;
        int status;

        if (!commits && !s->shard_queued) {
            if (s->stop)
                break;
            pthread_cond_wait(&s->queued, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        status = commits ? commit_save(s, &err) : write_shard(s, &err);
        pthread_mutex_lock(&s->lock);
        if (commits) {
            s->commit_queued = false;
        } else {
            s->shard_queued = false;
            s->state = status < 0 ? TUTTI_SAVER_IDLE : TUTTI_SAVER_WRITTEN;
        }
        if (status < 0 && s->status == 0) {
            s->status = status;
            s->failure = err;
        }
        pthread_cond_broadcast(&s->done);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Signals are for the threads that train. */
static int start_thread(struct tutti_saver *s, struct tutti_err *err)
{
    sigset_t all;
    sigset_t before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&s->thread, NULL, write_behind, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->has_thread = failed == 0;
    return failed == 0 ? 0
                       : tutti_fail(err, TUTTI_EIO, "cannot start a thread that saves: %s",
                                    strerror(failed));
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int copy_model(struct tutti_saver *s, const struct tutti_checkpoint_model *model)
{
    struct tutti_checkpoint_variable *variables =
        tutti_arena_take(s->arena, model->variable_count, sizeof(*variables));
    char *name = tutti_arena_copy_text(s->arena, model->name);

    if (variables == NULL || name == NULL)
        return -1;
    for (uint32_t i = 0; i < model->variable_count; i++) {
        variables[i] = model->variables[i];
        variables[i].name = tutti_arena_copy_text(s->arena, model->variables[i].name);
        if (variables[i].name == NULL)
            return -1;
    }
    s->head.model =
        (struct tutti_checkpoint_model){name, model->hash, variables, model->variable_count};
    return 0;
}

static int copy_slots(struct tutti_saver *s, const struct tutti_saver_options *o)
{
    struct tutti_checkpoint_slot *slots = tutti_arena_take(s->arena, o->slot_count, sizeof(*slots));

    if (slots == NULL)
        return -1;
    for (uint32_t i = 0; i < o->slot_count; i++) {
        slots[i] = o->slots[i];
        slots[i].name = tutti_arena_copy_text(s->arena, o->slots[i].name);
        if (slots[i].elements == 0)
            slots[i].elements = tutti_checkpoint_elements(&s->head.model);
        if (slots[i].name == NULL)
            return -1;
    }
    s->head.slots = slots;
    s->head.slot_count = o->slot_count;
    return 0;
}

/* What is checked before it is copied: names are there. */
static int check_options(const struct tutti_saver_options *o, struct tutti_err *err)
{
    struct tutti_checkpoint_slot slots[TUTTI_CHECKPOINT_SLOTS_MAX];
    struct tutti_checkpoint_head head = {.model = *o->model,
                                         .strategy = o->strategy,
                                         .rank_count = o->rank_count,
                                         .slots = slots,
                                         .slot_count = o->slot_count};

    for (uint32_t i = 0; i < o->slot_count && i < TUTTI_CHECKPOINT_SLOTS_MAX; i++) {
        slots[i] = o->slots[i];
        slots[i].elements += slots[i].elements == 0; /* of the model, which is checked itself */
    }
    if (o->rank >= o->rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "rank %" PRIu32 " of %" PRIu32, o->rank,
                          o->rank_count);
    return tutti_checkpoint_head_check(&head, err);
}

static int copy_options(struct tutti_saver *s, const struct tutti_saver_options *o,
                        struct tutti_err *err)
{
    int status = check_options(o, err);

    if (status < 0)
        return status;
    s->arena = tutti_arena_new();
    if (s->arena == NULL || copy_model(s, o->model) < 0 || copy_slots(s, o) < 0)
        return tutti_nomem(err);
    s->dir = tutti_arena_copy_text(s->arena, o->dir);
    s->head.strategy = tutti_arena_copy_text(s->arena, o->strategy);
    if (s->dir == NULL || s->head.strategy == NULL)
        return tutti_nomem(err);
    s->head.id.incarnation = o->incarnation;
    s->head.rank_count = o->rank_count;
    s->rank = o->rank;
    s->is_chief = o->is_chief;
    s->keep = o->keep;
    if (o->copy_bytes > 0) {
        s->shard.copy = copy_memory((size_t)o->copy_bytes, &s->shard.copy_capacity);
        s->touches = true;
        s->shard_queued = true;
        if (s->shard.copy == NULL)
            return tutti_nomem(err);
    }
    s->disk = o->disk == NULL ? tutti_disk_system : *o->disk;
    return 0;
}

/* The folder's own name goes to the medium, too. */
static int flush_parent(const struct tutti_saver *s, struct tutti_err *err)
{
    char parent[TUTTI_CHECKPOINT_PATH_BYTES];
    size_t bytes = strlen(s->dir);
    int status;

    while (bytes > 1 && s->dir[bytes - 1] == '/')
        bytes--;
    while (bytes > 0 && s->dir[bytes - 1] != '/')
        bytes--;
    memcpy(parent, s->dir, bytes);
    memcpy(parent + bytes, ".", 2);
    status = s->disk.sync_folder(s->disk.context, parent);
    return status < 0 ? tutti_checkpoint_io_fail(err, "flush folder", parent, status) : 0;
}

static int open_folder(const struct tutti_saver *s, struct tutti_err *err)
{
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    int status = tutti_checkpoint_path(s->dir, s->head.id, path, err); /* it is short enough */
    int file;

    if (status < 0)
        return status;
    status = s->disk.make_folder(s->disk.context, s->dir);
    if (status < 0 && status != -EEXIST)
        return tutti_checkpoint_io_fail(err, "make folder", s->dir, status);
    if (!s->is_chief)
        return 0;
    if (status == 0 && (status = flush_parent(s, err)) < 0)
        return status;
    tutti_checkpoint_file(s->dir, "can-be-written", path);
    file = s->disk.create(s->disk.context, path);
    if (file < 0)
        return tutti_checkpoint_io_fail(err, "create", path, file);
    (void)s->disk.close(s->disk.context, file);
    (void)s->disk.remove(s->disk.context, path);
    return tutti_checkpoint_clean(&s->disk, s->dir,
                                  (struct tutti_checkpoint_id){UINT64_MAX, UINT64_MAX}, 0, err);
}

int tutti_saver_open(const struct tutti_saver_options *options, struct tutti_saver **ret,
                     struct tutti_err *err)
{
    struct tutti_saver *s = calloc(1, sizeof(*s));
    int status;

    if (s == NULL)
        return tutti_nomem(err);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->queued, NULL);
    pthread_cond_init(&s->done, NULL);
    status = copy_options(s, options, err);
    if (status == 0)
        status = open_folder(s, err);
    if (status == 0)
        status = start_thread(s, err);
    if (status < 0) {
        (void)tutti_saver_close(s, NULL);
        return status;
    }
    *ret = s;
    return 0;
}

/* Once; the lock is held. */
static int take_failure(struct tutti_saver *s, struct tutti_err *err)
{
    int status = s->status;

    s->status = 0;
    if (status < 0)
        (void)tutti_fail(err, (enum tutti_status) - status, "%s", s->failure.text);
    return status;
}

int tutti_saver_close(struct tutti_saver *saver, struct tutti_err *err)
{
    int status;

    if (saver == NULL)
        return 0;
    if (saver->has_thread) {
        pthread_mutex_lock(&saver->lock);
        saver->stop = true;
        pthread_cond_signal(&saver->queued);
        pthread_mutex_unlock(&saver->lock);
        pthread_join(saver->thread, NULL);
    }
    status = take_failure(saver, err);
    pthread_cond_destroy(&saver->done);
    pthread_cond_destroy(&saver->queued);
    pthread_mutex_destroy(&saver->lock);
    free(saver->shard.head.text);
    free(saver->shard.pieces);
    free(saver->shard.copy);
    free(saver->commit.head.text);
    tutti_arena_free(saver->arena);
    free(saver);
    return status;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static int check_piece(const struct tutti_saver *s, const struct tutti_saver_piece *piece,
                       struct tutti_err *err)
{
    const struct tutti_checkpoint_slot *slot = &s->head.slots[piece->slot];

    assert(piece->slot < s->head.slot_count);
    if (piece->first > slot->elements || piece->count > slot->elements - piece->first)
        return tutti_fail(err, TUTTI_EINVAL,
                          "slot '%s' has %" PRIu64 " elements (%" PRIu64 " from %" PRIu64
                          " on are saved)",
                          slot->name, slot->elements, piece->count, piece->first);
    return 0;
}

/* Elements of a piece as long as pieces may be. */
static uint64_t piece_elements_max(const struct tutti_saver *s, uint32_t slot)
{
    return TUTTI_CHECKPOINT_PIECE_BYTES_MAX / tutti_dtype_bytes(s->head.slots[slot].dtype);
}

/* Room for what is saved, which is mostly as much as the last time. */
static int reserve(struct tutti_saver *s, const struct tutti_saver_piece *pieces,
                   size_t piece_count, struct tutti_err *err)
{
    struct shard *shard = &s->shard;
    size_t bytes = 0;
    size_t count = 0;

    for (size_t i = 0; i < piece_count; i++) {
        uint64_t most = piece_elements_max(s, pieces[i].slot);

        count += (size_t)((pieces[i].count + most - 1) / most);
        bytes += (size_t)pieces[i].count * tutti_dtype_bytes(s->head.slots[pieces[i].slot].dtype);
    }
    if (count > shard->piece_capacity) {
        free(shard->pieces);
        shard->pieces = malloc(count * sizeof(*shard->pieces));
        shard->piece_capacity = shard->pieces == NULL ? 0 : count;
    }
    if (bytes > shard->copy_capacity) {
        free(shard->copy);
        shard->copy = copy_memory(bytes, &shard->copy_capacity);
    }
    return shard->piece_capacity < count || shard->copy_capacity < bytes ? tutti_nomem(err) : 0;
}

/* Cuts a piece into such as are not too long; their bytes are copied together. */
static void copy_piece(struct tutti_saver *s, const struct tutti_saver_piece *piece)
{
    struct shard *shard = &s->shard;
    size_t width = tutti_dtype_bytes(s->head.slots[piece->slot].dtype);
    uint64_t most = piece_elements_max(s, piece->slot);

    for (uint64_t done = 0; done < piece->count; done += most)
        shard->pieces[shard->piece_count++] = (struct tutti_checkpoint_piece){
            .slot = piece->slot,
            .rank = s->rank,
            .first = piece->first + done,
            .count = piece->count - done < most ? piece->count - done : most,
        };
    if (piece->count > 0)
        memcpy(shard->copy + shard->copy_bytes, piece->data, (size_t)piece->count * width);
    shard->copy_bytes += (size_t)piece->count * width;
}

/* Nothing is being written: the shard is the caller's. */
static int fill_shard(struct tutti_saver *s, const struct tutti_saver_piece *pieces,
                      size_t piece_count, const struct tutti_checkpoint_head *head,
                      struct tutti_err *err)
{
    struct shard *shard = &s->shard;
    int status = tutti_checkpoint_head_check(head, err);

    for (size_t i = 0; i < piece_count && status == 0; i++)
        status = check_piece(s, &pieces[i], err);
    if (status == 0)
        status = reserve(s, pieces, piece_count, err);
    if (status < 0)
        return status;
    shard->head.bytes = 0;
    shard->head.no_memory = false;
    tutti_checkpoint_put_head(&shard->head, head);
    if (shard->head.no_memory)
        return tutti_nomem(err);
    shard->id = head->id;
    shard->piece_count = 0;
    shard->copy_bytes = 0;
    for (size_t i = 0; i < piece_count; i++)
        copy_piece(s, &pieces[i]);
    return 0;
}

int tutti_saver_begin(struct tutti_saver *saver, uint64_t step,
                      const struct tutti_saver_piece *pieces, size_t piece_count,
                      const struct tutti_checkpoint_scalar *scalars, uint32_t scalar_count,
                      struct tutti_err *err)
{
    struct tutti_checkpoint_head head = saver->head;
    int status;

    if (saver->has_begun && step <= saver->last_step)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a save of step %" PRIu64 " after one of step %" PRIu64, step,
                          saver->last_step);
    head.id.step = step;
    head.scalars = scalars;
    head.scalar_count = scalar_count;
    pthread_mutex_lock(&saver->lock);
    while (saver->shard_queued)
        pthread_cond_wait(&saver->done, &saver->lock);
    status = take_failure(saver, err);
    if (status == 0)
        saver->state = TUTTI_SAVER_IDLE; /* the save before is over, committed or not */
    pthread_mutex_unlock(&saver->lock);
    if (status == 0)
        status = fill_shard(saver, pieces, piece_count, &head, err);
    if (status < 0)
        return status;
    saver->has_begun = true;
    saver->last_step = step;
    pthread_mutex_lock(&saver->lock);
    saver->shard_queued = true;
    saver->state = TUTTI_SAVER_WRITING;
    pthread_cond_signal(&saver->queued);
    pthread_mutex_unlock(&saver->lock);
    return 0;
}

int tutti_saver_poll(struct tutti_saver *saver, enum tutti_saver_state *ret, struct tutti_err *err)
{
    int status;

    pthread_mutex_lock(&saver->lock);
    status = take_failure(saver, err);
    *ret = saver->state;
    pthread_mutex_unlock(&saver->lock);
    return status;
}

int tutti_saver_wait(struct tutti_saver *saver, struct tutti_err *err)
{
    int status;

    pthread_mutex_lock(&saver->lock);
    while (saver->shard_queued || saver->commit_queued)
        pthread_cond_wait(&saver->done, &saver->lock);
    status = take_failure(saver, err);
    pthread_mutex_unlock(&saver->lock);
    return status;
}

/* The shard is written: its head goes to the commit, whose old one it gets to write over. */
static void queue_commit(struct tutti_saver *s)
{
    struct tutti_checkpoint_text old = s->commit.head;

    s->commit = (struct commit){s->shard.id, s->shard.head};
    s->shard.head = old;
    s->commit_queued = true;
    pthread_cond_signal(&s->queued);
}

int tutti_saver_commit(struct tutti_saver *saver, struct tutti_err *err)
{
    int status;

    pthread_mutex_lock(&saver->lock);
    while (saver->commit_queued)
        pthread_cond_wait(&saver->done, &saver->lock);
    status = take_failure(saver, err);
    if (status == 0 && saver->state != TUTTI_SAVER_WRITTEN)
        status = tutti_fail(err, TUTTI_EINVAL, "no shard is written that could be committed");
    if (status == 0 && saver->is_chief)
        queue_commit(saver);
    if (status == 0)
        saver->state = TUTTI_SAVER_IDLE;
    pthread_mutex_unlock(&saver->lock);
    return status;
}

uint64_t tutti_saver_bytes(const struct tutti_saver *saver)
{
    return saver->shard.copy_bytes;
}
