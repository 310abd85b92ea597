/* Backends that play the game: by themselves, or with the other processes of a crew. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/exec/threads/game.h"
#include "runtime/threads.h"

static int troupe_play(struct tutti_backend *backend, const struct tutti_play *play,
                       struct tutti_played *ret, struct tutti_err *err)
{
    return tutti_game_play((struct tutti_troupe *)backend, play, ret, err);
}

static void troupe_ranks(const struct tutti_backend *backend, uint32_t rank_count,
                         uint32_t *ret_first, uint32_t *ret_count)
{
    const struct tutti_crew *crew = ((const struct tutti_troupe *)backend)->crew;

    *ret_first = tutti_crew_first_rank(rank_count, crew->count, crew->index);
    *ret_count = tutti_crew_first_rank(rank_count, crew->count, crew->index + 1) - *ret_first;
}

static void troupe_close(struct tutti_backend *backend)
{
    struct tutti_troupe *troupe = (struct tutti_troupe *)backend;

    if (troupe->carrier != NULL)
        troupe->carrier->ops->close(troupe->carrier);
    free(troupe->homes);
    free(troupe);
}

static uint64_t host_number(void)
{
    char text[256] = "";
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

    if (file >= 0)
        close(file);
    if (got <= 0)
        (void)gethostname(text, sizeof(text) - 1);
    for (size_t i = 0; i < sizeof(text) && text[i] != '\0'; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Processes of one host may still be apart, as containers are. */
static struct tutti_home find_home(void)
{
    struct tutti_home home = {.host = host_number()};
    struct stat space;

    if (stat("/proc/self/ns/net", &space) == 0)
        home.network = space.st_ino;
    return home;
}

static int fill(struct tutti_troupe *troupe, struct tutti_err *err)
{
    static const tutti_ps wait_ps = 30 * TUTTI_PS_PER_S;
    struct tutti_home mine = find_home();
    int status = 0;

    if (sched_getaffinity(0, sizeof(troupe->processors), &troupe->processors) != 0 ||
        CPU_COUNT(&troupe->processors) == 0)
        status = tutti_fail(err, TUTTI_EIO, "cannot find out which processors may be used");
    if (troupe->crew->count == 1)
        return status;
    troupe->homes = calloc(troupe->crew->count, sizeof(troupe->homes[0]));
    if (status == 0 && troupe->homes == NULL)
        status = tutti_nomem(err);
    status = tutti_crew_agree(troupe->crew, status, wait_ps, err);
    if (status == 0)
        status =
            tutti_crew_exchange(troupe->crew, &mine, sizeof(mine), troupe->homes, wait_ps, err);
    return status;
}

int tutti_troupe_open(const struct tutti_troupe_opts *opts, struct tutti_backend **ret,
                      struct tutti_err *err)
{
    struct tutti_troupe *troupe = calloc(1, sizeof(*troupe));
    int status;

    assert((opts->crew == NULL) == (opts->carrier == NULL));
    if (troupe == NULL) {
        status = tutti_nomem(err);
        if (opts->carrier != NULL)
            opts->carrier->ops->close(opts->carrier);
        return opts->crew == NULL ? status : tutti_crew_agree(opts->crew, status, INT64_MAX, err);
    }
    troupe->ops = (struct tutti_backend_ops){
        .size = sizeof(struct tutti_backend_ops),
        .name = opts->name,
        .close = troupe_close,
        .play = troupe_play,
        .ranks = troupe_ranks,
    };
    troupe->base.ops = &troupe->ops;
    troupe->pin = opts->pin;
    troupe->shaper = opts->shaper;
    troupe->slowdown = opts->slowdown;
    troupe->thread_count = opts->thread_count;
    troupe->alone = (struct tutti_crew){.count = 1};
    troupe->crew = opts->crew != NULL ? opts->crew : &troupe->alone;
    troupe->carrier = opts->carrier;
    assert(troupe->carrier == NULL ||
           troupe->carrier->ops->size == sizeof(struct tutti_carrier_ops));
    status = fill(troupe, err);
    if (status < 0) {
        troupe_close(&troupe->base);
        return status;
    }
    *ret = &troupe->base;
    return 0;
}

int tutti_threads_open(const struct tutti_threads_opts *opts, struct tutti_backend **ret,
                       struct tutti_err *err)
{
    struct tutti_troupe_opts troupe = {.name = "threads"};
    struct tutti_threads_opts own;
    int status;

    if (opts != NULL) {
        status = tutti_take("tutti_threads_opts", &own, sizeof(own), opts,
                            TUTTI_BYTES_TO(struct tutti_threads_opts, thread_count), err);
        if (status < 0)
            return status;
        troupe.pin = own.pin;
        troupe.shaper = own.shaper;
        troupe.slowdown = own.slowdown;
        troupe.thread_count = own.thread_count;
    }
    return tutti_troupe_open(&troupe, ret, err);
}

struct tutti_tempo tutti_threads_tempo(const struct tutti_backend *backend)
{
    return ((const struct tutti_troupe *)backend)->tempo;
}
