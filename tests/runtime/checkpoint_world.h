/* A small model that is saved and restored: what its elements are follows from slot, owner, element
 * and step, so that whatever is read can be compared. */
#ifndef TUTTI_TESTS_RUNTIME_CHECKPOINT_WORLD_H
#define TUTTI_TESTS_RUNTIME_CHECKPOINT_WORLD_H

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/checkpoint_disk.h"
#include "runtime/train/checkpoint_saver.h"
#include "tests/test.h"

enum { ELEMENTS = 7 * 5 + 5 + 1 + 60, CODE_ELEMENTS = 3, RANKS_MAX = 8, PIECES_MAX = 64 };
enum { WEIGHTS, MOMENT, ERROR, LOCAL, CODE, POSITION, SLOT_COUNT };

static const struct tutti_checkpoint_variable world_variables[] = {
    {"dense/kernel", 2, {7, 5}},
    {"dense/bias", 1, {5}},
    {"temperature", 0, {0}},
    {"embedding", 3, {3, 4, 5}},
};

static const struct tutti_checkpoint_model world_model = {"toy", 0x1234, world_variables, 4};

static const struct tutti_checkpoint_slot world_slots[SLOT_COUNT] = {
    [WEIGHTS] = {"weights", TUTTI_FLOAT32, TUTTI_OWNER_SHARED, 0},
    [MOMENT] = {"moment", TUTTI_FLOAT64, TUTTI_OWNER_SHARED, 0},
    [ERROR] = {"error", TUTTI_FLOAT32, TUTTI_OWNER_RANK_SUM, 0},
    [LOCAL] = {"local", TUTTI_FLOAT64, TUTTI_OWNER_RANK_MEAN, 0},
    [CODE] = {"code", TUTTI_UINT8, TUTTI_OWNER_SHARED, CODE_ELEMENTS},
    [POSITION] = {"position", TUTTI_INT64, TUTTI_OWNER_RANK_DROP, 1},
};

static inline uint64_t world_elements(unsigned slot)
{
    return world_slots[slot].elements == 0 ? ELEMENTS : world_slots[slot].elements;
}

/* Whole numbers, whose sums are exact. */
static inline double world_value(unsigned slot, uint32_t owner, uint64_t element, uint64_t step)
{
    uint64_t value = step * 1000 + slot * 131 + element * 7 + owner * 17;

    return (double)(slot == CODE ? value % 251 : value);
}

/* Elements as they lie in memory. */
static inline void world_put(unsigned slot, void *data, uint64_t index, double value)
{
    switch (world_slots[slot].dtype) {
    case TUTTI_FLOAT32:
        ((float *)data)[index] = (float)value;
        break;
    case TUTTI_FLOAT64:
        ((double *)data)[index] = value;
        break;
    case TUTTI_INT64:
        ((int64_t *)data)[index] = (int64_t)value;
        break;
    default:
        ((uint8_t *)data)[index] = (uint8_t)value;
    }
}

static inline double world_get(unsigned slot, const void *data, uint64_t index)
{
    switch (world_slots[slot].dtype) {
    case TUTTI_FLOAT32:
        return (double)((const float *)data)[index];
    case TUTTI_FLOAT64:
        return ((const double *)data)[index];
    case TUTTI_INT64:
        return (double)((const int64_t *)data)[index];
    default:
        return (double)((const uint8_t *)data)[index];
    }
}

/* What a rank saves: pieces, and where their bytes are. */
struct world_rank {
    struct tutti_saver *saver;
    struct tutti_saver_piece pieces[PIECES_MAX];
    size_t piece_count;
    double data[SLOT_COUNT][ELEMENTS]; /* as wide as the widest */
};

struct world {
    const struct tutti_disk *disk;
    char dir[256];
    uint32_t rank_count;
    uint32_t keep;
    uint64_t copy_bytes;
    uint64_t incarnation;
    struct world_rank ranks[RANKS_MAX];
    struct tutti_err err;
};

static inline void world_add(struct world_rank *r, unsigned slot, uint32_t owner, uint64_t first,
                             uint64_t count, uint64_t step)
{
    uint8_t *data = (uint8_t *)r->data[slot];
    size_t width = tutti_dtype_bytes(world_slots[slot].dtype);

    for (uint64_t i = 0; i < count; i++)
        world_put(slot, data, first + i, world_value(slot, owner, first + i, step));
    if (r->piece_count == PIECES_MAX)
        abort();
    r->pieces[r->piece_count++] =
        (struct tutti_saver_piece){slot, first, count, data + first * width};
}

/* How shared slots are spread. */
enum world_spread {
    SPREAD_CHIEF,  /* rank 0 has all, as mirrors have */
    SPREAD_SHARDS, /* a part each, as FSDP has it */
    SPREAD_RANDOM, /* cut anywhere, the pieces with anyone, in any order */
};

static inline void world_spread_slot(struct world *w, unsigned slot, enum world_spread spread,
                                     uint64_t step, struct tutti_random *random)
{
    uint64_t elements = world_elements(slot);
    uint64_t first = 0;

    while (first < elements) {
        uint64_t part = (elements + w->rank_count - 1) / w->rank_count;
        uint64_t count = spread == SPREAD_CHIEF    ? elements
                         : spread == SPREAD_SHARDS ? part
                                                   : 1 + tutti_random_below(random, elements);
        uint32_t rank = spread == SPREAD_CHIEF ? 0
                        : spread == SPREAD_SHARDS
                            ? (uint32_t)(first / part)
                            : (uint32_t)tutti_random_below(random, w->rank_count);

        count = count < elements - first ? count : elements - first;
        world_add(&w->ranks[rank], slot, 0, first, count, step);
        first += count;
    }
}

/* All pieces of all ranks at a step. */
static inline void world_fill(struct world *w, enum world_spread spread, uint64_t step)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed + step);
    for (uint32_t rank = 0; rank < w->rank_count; rank++)
        w->ranks[rank].piece_count = 0;
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        if (world_slots[slot].owner == TUTTI_OWNER_SHARED)
            world_spread_slot(w, slot, spread, step, &random);
        for (uint32_t rank = 0;
             rank < w->rank_count && world_slots[slot].owner != TUTTI_OWNER_SHARED; rank++)
            world_add(&w->ranks[rank], slot, rank, 0, world_elements(slot), step);
    }
}

static inline int world_open_savers(struct world *w)
{
    int status = 0;

    for (uint32_t rank = 0; rank < w->rank_count && status == 0; rank++) {
        struct tutti_saver_options options = {.disk = w->disk,
                                              .dir = w->dir,
                                              .incarnation = w->incarnation,
                                              .rank = rank,
                                              .rank_count = w->rank_count,
                                              .is_chief = rank == 0,
                                              .keep = w->keep,
                                              .copy_bytes = w->copy_bytes,
                                              .strategy = "fsdp",
                                              .model = &world_model,
                                              .slots = world_slots,
                                              .slot_count = SLOT_COUNT};

        status = tutti_saver_open(&options, &w->ranks[rank].saver, &w->err);
    }
    return status;
}

/* The first failure of any rank. */
static inline int world_close_savers(struct world *w)
{
    struct tutti_err err;
    int status = 0;

    for (uint32_t rank = 0; rank < w->rank_count; rank++) {
        int closed = tutti_saver_close(w->ranks[rank].saver, &err);

        w->ranks[rank].saver = NULL;
        if (status == 0 && closed < 0) {
            status = closed;
            w->err = err;
        }
    }
    return status;
}

/* One rank after the other, so that what the disk is asked for comes in one order. Commits if all
 * shards are written. */
static inline int world_save(struct world *w, enum world_spread spread, uint64_t step)
{
    const struct tutti_checkpoint_scalar scalars[] = {
        {.name = "epoch", .integer = step / 100},
        {.name = "loss_scale", .is_real = true, .real = 32768.0 / (double)(step + 1)},
        {.name = "seed", .integer = UINT64_MAX},
    };
    int status = 0;

    world_fill(w, spread, step);
    for (uint32_t rank = 0; rank < w->rank_count && status == 0; rank++) {
        struct world_rank *r = &w->ranks[rank];

        status = tutti_saver_begin(r->saver, step, r->pieces, r->piece_count, scalars, 3, &w->err);
        if (status == 0)
            status = tutti_saver_wait(r->saver, &w->err);
    }
    for (uint32_t rank = 0; rank < w->rank_count && status == 0; rank++)
        status = tutti_saver_commit(w->ranks[rank].saver, &w->err);
    return status < 0 ? status : tutti_saver_wait(w->ranks[0].saver, &w->err);
}

/* What rank `rank` of `here` reads of a slot that `there` ranks wrote at `step`. */
static inline double world_expected(unsigned slot, uint64_t element, uint64_t step, uint32_t there,
                                    uint32_t rank, uint32_t here)
{
    enum tutti_checkpoint_owner owner = world_slots[slot].owner;
    double sum = 0;

    if (owner == TUTTI_OWNER_SHARED)
        return world_value(slot, 0, element, step);
    if (there == here)
        return world_value(slot, rank, element, step);
    for (uint32_t q = 0; q < there && owner != TUTTI_OWNER_RANK_DROP; q++)
        if (owner == TUTTI_OWNER_RANK_MEAN || q % here == rank)
            sum += world_value(slot, q, element, step);
    return owner == TUTTI_OWNER_RANK_MEAN ? sum / there : sum;
}

/* Reads elements of a slot and compares them; how many are wrong. */
static inline uint64_t world_wrong(struct tutti_checkpoint *c, unsigned slot, uint64_t first,
                                   uint64_t count, uint32_t rank, uint32_t here,
                                   struct tutti_err *err)
{
    double data[ELEMENTS + 1];
    struct tutti_checkpoint_want want = {
        world_slots[slot].name, world_slots[slot].dtype, first, count, rank, here};
    uint64_t wrong = 0;

    memset(data, 0xff, sizeof(data));
    if (tutti_checkpoint_read(c, &want, data, err) < 0)
        return count + 1;
    for (uint64_t i = 0; i < count; i++) {
        double expected = world_expected(slot, first + i, tutti_checkpoint_id(c).step,
                                         tutti_checkpoint_rank_count(c), rank, here);
        double seen = world_get(slot, data, i);

        wrong += seen < expected || seen > expected || seen != seen;
    }
    return wrong;
}

/* Everything that `here` ranks read, each slot in two halves. */
static inline void world_check_all(struct tutti_checkpoint *c, uint32_t here)
{
    struct tutti_err err = {""};

    for (uint32_t rank = 0; rank < here; rank++) {
        for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
            uint64_t elements = world_elements(slot);
            uint64_t half = elements / 2;
            uint64_t wrong = world_wrong(c, slot, 0, half, rank, here, &err) +
                             world_wrong(c, slot, half, elements - half, rank, here, &err);

            if (wrong > 0)
                TEST_FAIL("%s: slot '%s' as rank %u of %u reads it: %" PRIu64 " wrong: %s",
                          tutti_checkpoint_folder(c), world_slots[slot].name, rank, here, wrong,
                          err.text);
        }
    }
}

/* Lines about damaged ones. */
struct world_notes {
    char text[4096];
    unsigned count;
};

static inline void world_note(void *context, const char *line)
{
    struct world_notes *notes = context;
    size_t used = strlen(notes->text);

    notes->count++;
    snprintf(notes->text + used, sizeof(notes->text) - used, "%s\n", line);
}

/* The newest sound one by its step, read whole as `here` ranks do; -1: there is none. */
static inline int64_t world_restore(struct world *w, uint32_t here, struct world_notes *notes)
{
    struct world_notes unseen = {.count = 0};
    struct tutti_checkpoint_source source = {.disk = w->disk,
                                             .model = &world_model,
                                             .verify = true,
                                             .note = world_note,
                                             .context = notes == NULL ? &unseen : notes};
    struct tutti_checkpoint *c = NULL;
    int64_t step = -1;

    CHECK_OK(tutti_checkpoint_open_newest(&source, w->dir, &c, &w->err), w->err);
    if (c != NULL) {
        world_check_all(c, here);
        step = (int64_t)tutti_checkpoint_id(c).step;
    }
    tutti_checkpoint_close(c);
    return step;
}

static inline void world_remove(const char *path)
{
    DIR *folder = opendir(path);
    char inner[1024];

    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
        if (unlink(inner) < 0)
            world_remove(inner);
    }
    if (folder != NULL)
        closedir(folder);
    rmdir(path);
}

static inline int world_sync(void *context, int file)
{
    (void)context;
    (void)file;
    return 0;
}

static inline int world_sync_folder(void *context, const char *path)
{
    (void)context;
    (void)path;
    return 0;
}

/* The system's, which flushes nothing: that takes most of the time, and no power is lost here. */
static inline const struct tutti_disk *world_disk(void)
{
    static struct tutti_disk disk;

    disk = tutti_disk_system;
    disk.sync = world_sync;
    disk.sync_folder = world_sync_folder;
    return &disk;
}

static inline void world_init(struct world *w, uint32_t rank_count)
{
    memset(w, 0, sizeof(*w));
    w->disk = world_disk();
    w->rank_count = rank_count;
    snprintf(w->dir, sizeof(w->dir), "%s/tutti-checkpoint-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"); /* in memory, if there is */
    if (mkdtemp(w->dir) == NULL)
        abort();
}

static inline void world_done(struct world *w)
{
    world_remove(w->dir);
}

/* Names in a folder, sorted, with blanks between them. */
static inline const char *world_names(const char *path, char *buf, size_t buf_bytes)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    size_t used = 0;

    buf[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%s", used > 0 ? " " : "",
                                     entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return buf;
}

#endif
