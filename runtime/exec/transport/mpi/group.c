/* The group of an MPI job: exchanges from each to all by nonblocking messages, and notices of who
 * stops on a communicator of their own. */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/transport/mpi/talk.h"
#include "runtime/launch.h"
#include "runtime/mpi.h"

enum { TAG = 1, NAMES_BYTES = 256 };

static const tutti_ps TELL_PS = TUTTI_PS_PER_S / 5; /* for all to take a notice, at the end */

static struct tutti_mpi_group *of(struct tutti_group *group)
{
    return (struct tutti_mpi_group *)group;
}

/* ---- notices, under the lock ---- */

/* Whether another process has stopped; then its notice is here. */
static bool hear(struct tutti_mpi_group *group)
{
    MPI_Status status;
    int there = 0;

    if (group->heard || group->stopped || group->dead)
        return group->heard;
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG, group->notices, &there, &status) != MPI_SUCCESS || !there)
        return false;
    if (MPI_Recv(&group->notice, (int)sizeof(group->notice), MPI_BYTE, status.MPI_SOURCE, TAG,
                 group->notices, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return false;
    group->heard_of = (uint32_t)status.MPI_SOURCE;
    group->heard = true;
    return true;
}

/* In a process's own words, and of a known kind: it may be of another build. */
static int told(const struct tutti_mpi_group *group, struct tutti_err *err)
{
    int status = group->notice.status;

    if (status >= 0 || status < -TUTTI_ECHECK)
        status = -TUTTI_EIO;
    return tutti_fail(err, (enum tutti_status) - status, "process %u of %u: %.*s", group->heard_of,
                      group->base.count, (int)sizeof(group->notice.text) - 1, group->notice.text);
}

static void stop(struct tutti_group *base, int status, const struct tutti_err *err)
{
    struct tutti_mpi_group *group = of(base);

    pthread_mutex_lock(&group->lock);
    if (!group->stopped && !group->heard && !group->dead) {
        group->stopped = true;
        group->notice = (struct tutti_mpi_notice){.status = status};
        (void)snprintf(group->notice.text, sizeof(group->notice.text), "%s",
                       err != NULL ? err->text : "gave up");
        for (uint32_t i = 0; i < base->count; i++) {
            if (i != base->index) /* best effort: there is nobody to tell of a failure */
                (void)MPI_Isend(&group->notice, (int)sizeof(group->notice), MPI_BYTE, (int)i, TAG,
                                group->notices, &group->telling[i]);
        }
    }
    pthread_mutex_unlock(&group->lock);
}

static int wait_stop(struct tutti_group *base, tutti_ps timeout_ps, struct tutti_err *err)
{
    struct tutti_mpi_group *group = of(base);
    struct tutti_mpi_patience patience = tutti_mpi_patience(timeout_ps);

    do {
        bool heard;

        if (atomic_exchange(&group->woken, false))
            return 0;
        pthread_mutex_lock(&group->lock);
        heard = hear(group);
        pthread_mutex_unlock(&group->lock);
        if (heard)
            return told(group, err);
    } while (tutti_mpi_rest(&patience));
    return 0;
}

static void wake(struct tutti_group *base)
{
    atomic_store(&of(base)->woken, true);
}

/* ---- the exchange ---- */

static int make_room(struct tutti_mpi_group *group, size_t bytes, struct tutti_err *err)
{
    char *mine;
    char *all;

    if (bytes > INT_MAX || bytes > SIZE_MAX / group->base.count)
        return tutti_fail(err, TUTTI_EINVAL, "%zu bytes are too many for one exchange (%d)", bytes,
                          INT_MAX);
    if (bytes <= group->bytes_max)
        return 0;
    mine = malloc(bytes);
    all = malloc(bytes * group->base.count);
    if (mine == NULL || all == NULL) {
        free(mine);
        free(all);
        return tutti_nomem(err);
    }
    free(group->mine);
    free(group->all);
    group->mine = mine;
    group->all = all;
    group->bytes_max = bytes;
    return 0;
}

static int post(struct tutti_mpi_group *group, size_t bytes, struct tutti_err *err)
{
    uint32_t count = group->base.count;
    int status = 0;

    for (uint32_t i = 0; i < 2 * count; i++)
        group->requests[i] = MPI_REQUEST_NULL;
    for (uint32_t i = 0; i < 2 * count && status == 0; i++) {
        uint32_t other = i % count;

        if (other == group->base.index)
            continue;
        if (i < count)
            status = tutti_mpi_status(MPI_Irecv(bytes > 0 ? group->all + other * bytes : NULL,
                                                (int)bytes, MPI_BYTE, (int)other, TAG, group->talk,
                                                &group->requests[i]),
                                      "receive from a process", err);
        else
            status = tutti_mpi_status(MPI_Isend(group->mine, (int)bytes, MPI_BYTE, (int)other, TAG,
                                                group->talk, &group->requests[i]),
                                      "send to a process", err);
    }
    return status;
}

/* "1, 4, 5": those of whom nothing has come. */
static void name_missing(const struct tutti_mpi_group *group, char names[NAMES_BYTES])
{
    size_t used = 0;

    names[0] = '\0';
    for (uint32_t i = 0; i < group->base.count; i++) {
        if (i == group->base.index || group->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (used > NAMES_BYTES - 32) {
            (void)snprintf(names + used, NAMES_BYTES - used, " and more");
            return;
        }
        used += (size_t)snprintf(names + used, NAMES_BYTES - used, "%s%u", used > 0 ? ", " : "", i);
    }
    if (used == 0) /* all have sent and somebody has not yet taken what we sent */
        (void)snprintf(names, NAMES_BYTES, "all, to take what was sent");
}

/* 1: all is done; 0: not yet; or a negative status. Under the lock. */
static int look(struct tutti_mpi_group *group, struct tutti_err *err)
{
    int done = 1;
    int status = 0;

    for (uint32_t i = 0; i < 2 * group->base.count && status == 0; i++) {
        int one = 1;

        if (group->requests[i] == MPI_REQUEST_NULL)
            continue;
        status = tutti_mpi_status(MPI_Test(&group->requests[i], &one, MPI_STATUS_IGNORE),
                                  "exchange with a process", err);
        done = done && one;
    }
    if (status == 0 && !done && hear(group))
        status = told(group, err);
    return status < 0 ? status : done;
}

/* After a failure: what is still to be received is taken back, what is still to be sent is left to
 * MPI, and its memory is never given back. */
static void give_up(struct tutti_mpi_group *group)
{
    uint32_t count = group->base.count;

    group->failed = true;
    for (uint32_t i = 0; i < 2 * count; i++) {
        if (group->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (i < count)
            (void)MPI_Cancel(&group->requests[i]);
        (void)MPI_Request_free(&group->requests[i]);
    }
    group->mine = NULL;
    group->all = NULL;
    group->bytes_max = 0;
}

/* An exchange that was given up may leave a message behind, which would be taken for one of the
 * next: there is none. Under the lock. */
static int refuse(const struct tutti_mpi_group *group, struct tutti_err *err)
{
    if (group->dead)
        return tutti_fail(err, TUTTI_EIO, "process %u of %u has given MPI up", group->base.index,
                          group->base.count);
    if (group->heard)
        return told(group, err);
    if (group->stopped && group->notice.status < 0)
        return tutti_fail(err, (enum tutti_status) - group->notice.status, "%.*s",
                          (int)sizeof(group->notice.text) - 1, group->notice.text);
    if (group->stopped || group->failed)
        return tutti_fail(err, TUTTI_EIO, "process %u of %u has given up an exchange before",
                          group->base.index, group->base.count);
    return 0;
}

static int exchange(struct tutti_group *base, const void *mine, size_t bytes, void *ret_all,
                    tutti_ps deadline_ps, struct tutti_err *err)
{
    struct tutti_mpi_group *group = of(base);
    struct tutti_mpi_patience patience = tutti_mpi_patience(deadline_ps);
    char names[NAMES_BYTES];
    char time[TUTTI_UNIT_TEXT_BYTES];
    int done;

    pthread_mutex_lock(&group->lock);
    done = refuse(group, err);
    pthread_mutex_unlock(&group->lock);
    if (done < 0)
        return done;
    done = make_room(group, bytes, err);
    if (done < 0) { /* the others are to hear of it in theirs */
        tutti_group_stop(base, done, err);
        return done;
    }
    if (bytes > 0) {
        memcpy(group->mine, mine, bytes);
        memcpy(group->all + base->index * bytes, mine, bytes);
    }
    pthread_mutex_lock(&group->lock);
    done = post(group, bytes, err);
    while (done == 0) {
        done = look(group, err);
        if (done != 0)
            break;
        pthread_mutex_unlock(&group->lock);
        if (!tutti_mpi_rest(&patience)) {
            name_missing(group, names);
            done = tutti_fail(err, TUTTI_ETIME,
                              "deadline of %s passed: process %u of %u waits for process %s",
                              tutti_print_time(deadline_ps, time), base->index, base->count, names);
        }
        pthread_mutex_lock(&group->lock);
    }
    if (done < 0)
        give_up(group);
    pthread_mutex_unlock(&group->lock);
    if (done < 0)
        return done;
    if (bytes > 0)
        memcpy(ret_all, group->all, bytes * base->count);
    return 0;
}

/* ---- open and close ---- */

/* Whether process i has taken the notice, or was sent none; those who still listen do it soon. */
static bool has_told(struct tutti_mpi_group *group, uint32_t i, struct tutti_mpi_patience *patience)
{
    int code = MPI_SUCCESS;
    int told_it = 0;

    if (group->telling[i] == MPI_REQUEST_NULL)
        return true;
    do {
        pthread_mutex_lock(&group->lock);
        code = MPI_Test(&group->telling[i], &told_it, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&group->lock);
    } while (code == MPI_SUCCESS && !told_it && tutti_mpi_rest(patience));
    if (code != MPI_SUCCESS || !told_it)
        (void)MPI_Request_free(&group->telling[i]);
    return code == MPI_SUCCESS && told_it;
}

static void group_close(struct tutti_group *base)
{
    struct tutti_mpi_group *group = of(base);
    /* One for all: of many who are gone each would cost that long. */
    struct tutti_mpi_patience patience = tutti_mpi_patience(TELL_PS);
    bool quiet = !group->failed && !group->heard && !group->dead;

    for (uint32_t i = 0; !group->dead && i < base->count; i++)
        quiet = has_told(group, i, &patience) && quiet;
    free(group->requests);
    free(group->telling);
    free(group->mine);
    free(group->all);
    /* A communicator is given back by all together: not by those who fail alone. */
    if (quiet && !group->stopped && group->talk != MPI_COMM_NULL)
        (void)MPI_Comm_free(&group->talk);
    if (quiet && !group->stopped && group->notices != MPI_COMM_NULL)
        (void)MPI_Comm_free(&group->notices);
    pthread_mutex_destroy(&group->lock);
    if (quiet || !group->stopped) /* else the notice is still being read from here */
        free(group);
}

static int shrink(struct tutti_group *base, uint32_t count_min, tutti_ps deadline_ps,
                  struct tutti_group **ret, struct tutti_err *err)
{
    (void)base;
    (void)count_min;
    (void)deadline_ps;
    (void)ret;
    return tutti_fail(err, TUTTI_ELACK,
                      "a group of MPI cannot shrink: MPI ends a job whole when one of its "
                      "processes dies (a group over tcp can)");
}

static const struct tutti_group_ops ops = {
    .size = sizeof(struct tutti_group_ops),
    .name = "mpi",
    .close = group_close,
    .exchange = exchange,
    .stop = stop,
    .wait_stop = wait_stop,
    .wake = wake,
    .shrink = shrink,
};

/* Communicators of our own, whose errors come back to us; those of MPI_COMM_WORLD end the job. */
static int make_communicators(struct tutti_mpi_group *group, struct tutti_err *err)
{
    int status = tutti_mpi_status(MPI_Comm_dup(MPI_COMM_WORLD, &group->talk),
                                  "make a communicator for exchanges", err);

    if (status == 0)
        status = tutti_mpi_status(MPI_Comm_dup(MPI_COMM_WORLD, &group->notices),
                                  "make a communicator for notices", err);
    if (status == 0)
        status = tutti_mpi_status(MPI_Comm_set_errhandler(group->talk, MPI_ERRORS_RETURN),
                                  "ask MPI to report errors", err);
    if (status == 0)
        status = tutti_mpi_status(MPI_Comm_set_errhandler(group->notices, MPI_ERRORS_RETURN),
                                  "ask MPI to report errors", err);
    return status;
}

/* Under the launcher of another MPI each process is a job of its own, and knows of no other. */
static int check_launcher(uint32_t count, struct tutti_err *err)
{
    struct tutti_launch launch;
    char name[TUTTI_MPI_NAME_BYTES];

    if (count > 1 || tutti_launch_read(&tutti_env_process, NULL, &launch, NULL) < 0 ||
        launch.count <= 1)
        return 0;
    return tutti_fail(err, TUTTI_ELACK,
                      "%s started %u of these, but %s sees one (start them by the mpirun of that "
                      "MPI, or by srun --mpi=pmix)",
                      launch.by, launch.count, tutti_mpi_name(name));
}

static struct tutti_mpi_group *new_group(uint32_t index, uint32_t count)
{
    struct tutti_mpi_group *group = calloc(1, sizeof(*group));
    MPI_Request *requests = calloc(2 * (size_t)count, sizeof(requests[0]));
    MPI_Request *telling = calloc((size_t)count, sizeof(telling[0]));

    if (group == NULL || requests == NULL || telling == NULL) {
        free(group);
        free(requests);
        free(telling);
        return NULL;
    }
    group->base =
        (struct tutti_group){.ops = &ops, .index = index, .count = count, .incarnation = 1};
    group->talk = MPI_COMM_NULL;
    group->notices = MPI_COMM_NULL;
    group->requests = requests;
    group->telling = telling;
    for (uint32_t i = 0; i < count; i++)
        group->telling[i] = MPI_REQUEST_NULL;
    pthread_mutex_init(&group->lock, NULL);
    return group;
}

/* Who makes a communicator waits for all, and knows no deadline: nobody begins alone. */
static int all_have(bool memory, struct tutti_err *err)
{
    int mine = memory;
    int all = 0;
    int status = tutti_mpi_status(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD),
                                  "meet at the start", err);

    if (status < 0 || all)
        return status;
    return memory ? tutti_fail(err, TUTTI_ENOMEM, "another process of the job is out of memory")
                  : tutti_nomem(err);
}

int tutti_mpi_group_open(struct tutti_group **ret, struct tutti_err *err)
{
    struct tutti_mpi_group *group;
    int provided = MPI_THREAD_SINGLE;
    int index = 0;
    int count = 1;
    int status = tutti_mpi_begin(err);

    if (status < 0)
        return status;
    (void)MPI_Query_thread(&provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &index);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &count);
    status = check_launcher((uint32_t)count, err);
    if (status < 0)
        return status;
    group = new_group((uint32_t)index, (uint32_t)count);
    status = all_have(group != NULL, err);
    if (status < 0) {
        if (group != NULL)
            group_close(&group->base);
        return status;
    }
    group->serialized = provided < MPI_THREAD_MULTIPLE;
    status = make_communicators(group, err);
    if (status < 0) {
        group->failed = true;
        group_close(&group->base);
        return status;
    }
    *ret = &group->base;
    return 0;
}
