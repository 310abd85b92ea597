/* Opens a backend of a player: alone, or with the other processes of a group. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/exec/run/run.h"

static void backend_ranks(const struct tutti_backend *base, uint32_t rank_count,
                          uint32_t *ret_first, uint32_t *ret_count)
{
    const struct tutti_group *group = ((const struct tutti_player_backend *)base)->group;

    *ret_first = tutti_group_first_rank(rank_count, group->count, group->index);
    *ret_count = tutti_group_first_rank(rank_count, group->count, group->index + 1) - *ret_first;
}

static void backend_close(struct tutti_backend *base)
{
    struct tutti_player_backend *backend = (struct tutti_player_backend *)base;

    backend->player->ops->close(backend->player);
    free(backend->homes);
    free(backend);
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

/* `status`: negative if this process cannot go on. */
static int find_homes(struct tutti_player_backend *backend, struct tutti_group *group, int status,
                      struct tutti_err *err)
{
    static const tutti_ps wait_ps = 30 * TUTTI_PS_PER_S;
    struct tutti_home mine = find_home();

    if (group == NULL) {
        if (status == 0)
            backend->homes[0] = mine;
        return status;
    }
    status = tutti_group_agree(group, status, wait_ps, err);
    return status < 0
               ? status
               : tutti_group_exchange(group, &mine, sizeof(mine), backend->homes, wait_ps, err);
}

int tutti_player_backend_open(const char *name, struct tutti_player *player,
                              struct tutti_group *group, struct tutti_backend **ret,
                              struct tutti_err *err)
{
    struct tutti_player_backend *backend = calloc(1, sizeof(*backend));
    int status = backend == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        backend->homes = calloc(group == NULL ? 1 : group->count, sizeof(backend->homes[0]));
        status = backend->homes == NULL ? tutti_nomem(err) : 0;
    }
    status = find_homes(backend, group, status, err);
    if (status < 0) {
        player->ops->close(player);
        if (backend != NULL)
            free(backend->homes);
        free(backend);
        return status;
    }
    backend->ops = (struct tutti_backend_ops){
        .size = sizeof(struct tutti_backend_ops),
        .name = name,
        .close = backend_close,
        .ranks = backend_ranks,
        .open_run = tutti_player_run_open,
        .step_run = tutti_player_run_step,
        .close_run = tutti_player_run_close,
        .calls = player->ops->calls,
    };
    backend->base.ops = &backend->ops;
    backend->player = player;
    backend->alone = (struct tutti_group){.count = 1};
    backend->group = group != NULL ? group : &backend->alone;
    *ret = &backend->base;
    return 0;
}

struct tutti_player *tutti_backend_player(const struct tutti_backend *backend)
{
    return ((const struct tutti_player_backend *)backend)->player;
}
