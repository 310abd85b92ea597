/* The crew of an MPI job: exchanges from each to all by nonblocking messages, and notices of who
 * stops on a communicator of their own. */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/mpi/talk.h"
#include "runtime/launch.h"
#include "runtime/mpi.h"

enum { TAG = 1, NAMES_BYTES = 256 };

static const tutti_ps TELL_PS = TUTTI_PS_PER_S / 5; /* for all to take a notice, at the end */

static struct tutti_mpi_crew *of(struct tutti_crew *crew)
{
    return (struct tutti_mpi_crew *)crew;
}

/* ---- notices, under the lock ---- */

/* Whether another process has stopped; then its notice is here. */
static bool hear(struct tutti_mpi_crew *crew)
{
    MPI_Status status;
    int there = 0;

    if (crew->heard || crew->stopped || crew->dead)
        return crew->heard;
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG, crew->notices, &there, &status) != MPI_SUCCESS || !there)
        return false;
    if (MPI_Recv(&crew->notice, (int)sizeof(crew->notice), MPI_BYTE, status.MPI_SOURCE, TAG,
                 crew->notices, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return false;
    crew->heard_of = (uint32_t)status.MPI_SOURCE;
    crew->heard = true;
    return true;
}

/* In a process's own words, and of a known kind: it may be of another build. */
static int told(const struct tutti_mpi_crew *crew, struct tutti_err *err)
{
    int status = crew->notice.status;

    if (status >= 0 || status < -TUTTI_ECHECK)
        status = -TUTTI_EIO;
    return tutti_fail(err, (enum tutti_status) - status, "process %u of %u: %.*s", crew->heard_of,
                      crew->base.count, (int)sizeof(crew->notice.text) - 1, crew->notice.text);
}

static void stop(struct tutti_crew *base, int status, const struct tutti_err *err)
{
    struct tutti_mpi_crew *crew = of(base);

    pthread_mutex_lock(&crew->lock);
    if (!crew->stopped && !crew->heard && !crew->dead) {
        crew->stopped = true;
        crew->notice = (struct tutti_mpi_notice){.status = status};
        (void)snprintf(crew->notice.text, sizeof(crew->notice.text), "%s",
                       err != NULL ? err->text : "gave up");
        for (uint32_t i = 0; i < base->count; i++) {
            if (i != base->index) /* best effort: there is nobody to tell of a failure */
                (void)MPI_Isend(&crew->notice, (int)sizeof(crew->notice), MPI_BYTE, (int)i, TAG,
                                crew->notices, &crew->telling[i]);
        }
    }
    pthread_mutex_unlock(&crew->lock);
}

static int wait_stop(struct tutti_crew *base, tutti_ps timeout_ps, struct tutti_err *err)
{
    struct tutti_mpi_crew *crew = of(base);
    struct tutti_mpi_patience patience = tutti_mpi_patience(timeout_ps);

    do {
        bool heard;

        if (atomic_exchange(&crew->woken, false))
            return 0;
        pthread_mutex_lock(&crew->lock);
        heard = hear(crew);
        pthread_mutex_unlock(&crew->lock);
        if (heard)
            return told(crew, err);
    } while (tutti_mpi_rest(&patience));
    return 0;
}

static void wake(struct tutti_crew *base)
{
    atomic_store(&of(base)->woken, true);
}

/* ---- the exchange ---- */

static int make_room(struct tutti_mpi_crew *crew, size_t bytes, struct tutti_err *err)
{
    char *mine;
    char *all;

    if (bytes > INT_MAX || bytes > SIZE_MAX / crew->base.count)
        return tutti_fail(err, TUTTI_EINVAL, "%zu bytes are too many for one exchange (%d)", bytes,
                          INT_MAX);
    if (bytes <= crew->bytes_max)
        return 0;
    mine = malloc(bytes);
    all = malloc(bytes * crew->base.count);
    if (mine == NULL || all == NULL) {
        free(mine);
        free(all);
        return tutti_nomem(err);
    }
    free(crew->mine);
    free(crew->all);
    crew->mine = mine;
    crew->all = all;
    crew->bytes_max = bytes;
    return 0;
}

static int post(struct tutti_mpi_crew *crew, size_t bytes, struct tutti_err *err)
{
    uint32_t count = crew->base.count;
    int status = 0;

    for (uint32_t i = 0; i < 2 * count; i++)
        crew->requests[i] = MPI_REQUEST_NULL;
    for (uint32_t i = 0; i < 2 * count && status == 0; i++) {
        uint32_t other = i % count;

        if (other == crew->base.index)
            continue;
        if (i < count)
            status = tutti_mpi_status(MPI_Irecv(bytes > 0 ? crew->all + other * bytes : NULL,
                                                (int)bytes, MPI_BYTE, (int)other, TAG, crew->talk,
                                                &crew->requests[i]),
                                      "receive from a process", err);
        else
            status = tutti_mpi_status(MPI_Isend(crew->mine, (int)bytes, MPI_BYTE, (int)other, TAG,
                                                crew->talk, &crew->requests[i]),
                                      "send to a process", err);
    }
    return status;
}

/* "1, 4, 5": those of whom nothing has come. */
static void name_missing(const struct tutti_mpi_crew *crew, char names[NAMES_BYTES])
{
    size_t used = 0;

    names[0] = '\0';
    for (uint32_t i = 0; i < crew->base.count; i++) {
        if (i == crew->base.index || crew->requests[i] == MPI_REQUEST_NULL)
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
static int look(struct tutti_mpi_crew *crew, struct tutti_err *err)
{
    int done = 1;
    int status = 0;

    for (uint32_t i = 0; i < 2 * crew->base.count && status == 0; i++) {
        int one = 1;

        if (crew->requests[i] == MPI_REQUEST_NULL)
            continue;
        status = tutti_mpi_status(MPI_Test(&crew->requests[i], &one, MPI_STATUS_IGNORE),
                                  "exchange with a process", err);
        done = done && one;
    }
    if (status == 0 && !done && hear(crew))
        status = told(crew, err);
    return status < 0 ? status : done;
}

/* After a failure: what is still to be received is taken back, what is still to be sent is left to
 * MPI, and its memory is never given back. */
static void give_up(struct tutti_mpi_crew *crew)
{
    uint32_t count = crew->base.count;

    crew->failed = true;
    for (uint32_t i = 0; i < 2 * count; i++) {
        if (crew->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (i < count)
            (void)MPI_Cancel(&crew->requests[i]);
        (void)MPI_Request_free(&crew->requests[i]);
    }
    crew->mine = NULL;
    crew->all = NULL;
    crew->bytes_max = 0;
}

/* An exchange that was given up may leave a message behind, which would be taken for one of the
 * next: there is none. Under the lock. */
static int refuse(const struct tutti_mpi_crew *crew, struct tutti_err *err)
{
    if (crew->dead)
        return tutti_fail(err, TUTTI_EIO, "process %u of %u has given MPI up", crew->base.index,
                          crew->base.count);
    if (crew->heard)
        return told(crew, err);
    if (crew->stopped && crew->notice.status < 0)
        return tutti_fail(err, (enum tutti_status) - crew->notice.status, "%.*s",
                          (int)sizeof(crew->notice.text) - 1, crew->notice.text);
    if (crew->stopped || crew->failed)
        return tutti_fail(err, TUTTI_EIO, "process %u of %u has given up an exchange before",
                          crew->base.index, crew->base.count);
    return 0;
}

static int exchange(struct tutti_crew *base, const void *mine, size_t bytes, void *ret_all,
                    tutti_ps deadline_ps, struct tutti_err *err)
{
    struct tutti_mpi_crew *crew = of(base);
    struct tutti_mpi_patience patience = tutti_mpi_patience(deadline_ps);
    char names[NAMES_BYTES];
    char time[TUTTI_UNIT_TEXT_BYTES];
    int done;

    pthread_mutex_lock(&crew->lock);
    done = refuse(crew, err);
    pthread_mutex_unlock(&crew->lock);
    if (done < 0)
        return done;
    done = make_room(crew, bytes, err);
    if (done < 0) { /* the others are to hear of it in theirs */
        tutti_crew_stop(base, done, err);
        return done;
    }
    if (bytes > 0) {
        memcpy(crew->mine, mine, bytes);
        memcpy(crew->all + base->index * bytes, mine, bytes);
    }
    pthread_mutex_lock(&crew->lock);
    done = post(crew, bytes, err);
    while (done == 0) {
        done = look(crew, err);
        if (done != 0)
            break;
        pthread_mutex_unlock(&crew->lock);
        if (!tutti_mpi_rest(&patience)) {
            name_missing(crew, names);
            done = tutti_fail(err, TUTTI_ETIME,
                              "deadline of %s passed: process %u of %u waits for process %s",
                              tutti_print_time(deadline_ps, time), base->index, base->count, names);
        }
        pthread_mutex_lock(&crew->lock);
    }
    if (done < 0)
        give_up(crew);
    pthread_mutex_unlock(&crew->lock);
    if (done < 0)
        return done;
    if (bytes > 0)
        memcpy(ret_all, crew->all, bytes * base->count);
    return 0;
}

/* ---- open and close ---- */

/* Whether process i has taken the notice, or was sent none; those who still listen do it soon. */
static bool has_told(struct tutti_mpi_crew *crew, uint32_t i, struct tutti_mpi_patience *patience)
{
    int code = MPI_SUCCESS;
    int told_it = 0;

    if (crew->telling[i] == MPI_REQUEST_NULL)
        return true;
    do {
        pthread_mutex_lock(&crew->lock);
        code = MPI_Test(&crew->telling[i], &told_it, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&crew->lock);
    } while (code == MPI_SUCCESS && !told_it && tutti_mpi_rest(patience));
    if (code != MPI_SUCCESS || !told_it)
        (void)MPI_Request_free(&crew->telling[i]);
    return code == MPI_SUCCESS && told_it;
}

static void crew_close(struct tutti_crew *base)
{
    struct tutti_mpi_crew *crew = of(base);
    /* One for all: of many who are gone each would cost that long. */
    struct tutti_mpi_patience patience = tutti_mpi_patience(TELL_PS);
    bool quiet = !crew->failed && !crew->heard && !crew->dead;

    for (uint32_t i = 0; !crew->dead && i < base->count; i++)
        quiet = has_told(crew, i, &patience) && quiet;
    free(crew->requests);
    free(crew->telling);
    free(crew->mine);
    free(crew->all);
    /* A communicator is given back by all together: not by those who fail alone. */
    if (quiet && !crew->stopped && crew->talk != MPI_COMM_NULL)
        (void)MPI_Comm_free(&crew->talk);
    if (quiet && !crew->stopped && crew->notices != MPI_COMM_NULL)
        (void)MPI_Comm_free(&crew->notices);
    pthread_mutex_destroy(&crew->lock);
    if (quiet || !crew->stopped) /* else the notice is still being read from here */
        free(crew);
}

static const struct tutti_crew_ops ops = {
    .size = sizeof(struct tutti_crew_ops),
    .name = "mpi",
    .close = crew_close,
    .exchange = exchange,
    .stop = stop,
    .wait_stop = wait_stop,
    .wake = wake,
};

/* Communicators of our own, whose errors come back to us; those of MPI_COMM_WORLD end the job. */
static int make_communicators(struct tutti_mpi_crew *crew, struct tutti_err *err)
{
    int status = tutti_mpi_status(MPI_Comm_dup(MPI_COMM_WORLD, &crew->talk),
                                  "make a communicator for exchanges", err);

    if (status == 0)
        status = tutti_mpi_status(MPI_Comm_dup(MPI_COMM_WORLD, &crew->notices),
                                  "make a communicator for notices", err);
    if (status == 0)
        status = tutti_mpi_status(MPI_Comm_set_errhandler(crew->talk, MPI_ERRORS_RETURN),
                                  "ask MPI to report errors", err);
    if (status == 0)
        status = tutti_mpi_status(MPI_Comm_set_errhandler(crew->notices, MPI_ERRORS_RETURN),
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

static struct tutti_mpi_crew *new_crew(uint32_t index, uint32_t count)
{
    struct tutti_mpi_crew *crew = calloc(1, sizeof(*crew));
    MPI_Request *requests = calloc(2 * (size_t)count, sizeof(requests[0]));
    MPI_Request *telling = calloc((size_t)count, sizeof(telling[0]));

    if (crew == NULL || requests == NULL || telling == NULL) {
        free(crew);
        free(requests);
        free(telling);
        return NULL;
    }
    crew->base = (struct tutti_crew){.ops = &ops, .index = index, .count = count};
    crew->talk = MPI_COMM_NULL;
    crew->notices = MPI_COMM_NULL;
    crew->requests = requests;
    crew->telling = telling;
    for (uint32_t i = 0; i < count; i++)
        crew->telling[i] = MPI_REQUEST_NULL;
    pthread_mutex_init(&crew->lock, NULL);
    return crew;
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

int tutti_mpi_crew_open(struct tutti_crew **ret, struct tutti_err *err)
{
    struct tutti_mpi_crew *crew;
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
    crew = new_crew((uint32_t)index, (uint32_t)count);
    status = all_have(crew != NULL, err);
    if (status < 0) {
        if (crew != NULL)
            crew_close(&crew->base);
        return status;
    }
    crew->serialized = provided < MPI_THREAD_MULTIPLE;
    status = make_communicators(crew, err);
    if (status < 0) {
        crew->failed = true;
        crew_close(&crew->base);
        return status;
    }
    *ret = &crew->base;
    return 0;
}
