/* Listens for processes that give up or are gone, while a run is open. */
#include <string.h>

#include "runtime/exec/run/run.h"

static void *listen(void *data)
{
    enum { LOOK_MS = 100 }; /* a wake that comes just before the wait must not be waited for long */
    struct tutti_player_run *run = data;
    struct tutti_err err;

    while (!atomic_load(&run->guard.over)) {
        int status = tutti_group_wait_stop(run->backend->group, LOOK_MS * TUTTI_PS_PER_MS, &err);

        if (status == 0)
            continue;
        run->backend->player->ops->abort(run->loaded, status, &err);
        break;
    }
    return NULL;
}

int tutti_guard_start(struct tutti_player_run *run, struct tutti_err *err)
{
    int status;

    if (run->load.own_count == 0 || run->backend->group->count == 1)
        return 0;
    status = pthread_create(&run->guard.thread, NULL, listen, run);
    run->guard.has_thread = status == 0;
    return status == 0 ? 0
                       : tutti_fail(err, TUTTI_EIO, "cannot start a thread: %s", strerror(status));
}

void tutti_guard_end(struct tutti_player_run *run)
{
    if (!run->guard.has_thread)
        return;
    run->guard.has_thread = false;
    atomic_store(&run->guard.over, true);
    tutti_group_wake(run->backend->group);
    pthread_join(run->guard.thread, NULL);
}
