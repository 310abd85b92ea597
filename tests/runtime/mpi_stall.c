/* One process of an MPI job stops moving: the others end within their deadline, each with one line
 * that names a rank, a step and what it waits for; and so does the job (mpi.cmake). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#include "runtime/coll.h"
#include "runtime/group.h"
#include "runtime/mpi.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

static void give_up(const struct tutti_err *err)
{
    fprintf(stderr, "%s\n", err->text);
    tutti_mpi_end(TUTTI_PS_PER_S); /* waits in vain for the one that sleeps */
    exit(1);
}

static void sleep_for_good(int number)
{
    (void)number;
    raise(SIGSTOP);
}

int main(void)
{
    struct itimerval soon = {.it_value = {.tv_usec = 300000}};
    struct tutti_coll_params params = {.dtype = TUTTI_FLOAT32, .count = 100000};
    struct tutti_shape shape;
    struct tutti_schedule *schedule = NULL;
    struct tutti_group *group = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_played played;
    struct tutti_err err;
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .iteration_count = 1000000,
                              .deadline_ps = TUTTI_PS_PER_S};

    if (tutti_mpi_group_open(&group, &err) < 0)
        give_up(&err);
    if (tutti_mpi_open(
            &(struct tutti_mpi_opts){.size = sizeof(struct tutti_mpi_opts), .group = group},
            &backend, &err) < 0)
        give_up(&err);
    shape = tutti_shape_flat(group->count);
    if (tutti_coll_generate("ring", &params, &shape, &schedule, &err) < 0)
        give_up(&err);
    play.schedule = schedule;
    if (group->index == 1) {
        (void)signal(SIGALRM, sleep_for_good);
        (void)setitimer(ITIMER_REAL, &soon, NULL);
    }
    if (tutti_backend_play(backend, &play, &played, &err) < 0)
        give_up(&err);
    return 0;
}
