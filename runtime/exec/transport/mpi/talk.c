/* MPI begun and ended, its errors in words, and waiting for it without burning a processor. */
#include "runtime/exec/transport/mpi/talk.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/mpi.h"

enum {
    NS_PER_S = 1000000000,
    YIELD_NS = 100000, /* some wake-ups' worth of time */
    BACKOFF_NS_MIN = 20000,
    BACKOFF_NS_MAX = 1000000,
};

void tutti_mpi_enter(struct tutti_mpi_group *group)
{
    if (group->serialized)
        pthread_mutex_lock(&group->lock);
}

void tutti_mpi_leave(struct tutti_mpi_group *group)
{
    if (group->serialized)
        pthread_mutex_unlock(&group->lock);
}

/* Known to all that ends MPI: a name that MPI keeps for us, as there are no globals here. */
static const char dead_name[] = "tutti: not to be called any more";

void tutti_mpi_die(struct tutti_mpi_group *group)
{
    group->dead = true;
    (void)MPI_Comm_set_name(MPI_COMM_SELF, dead_name);
}

static bool is_dead(void)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;

    return MPI_Comm_get_name(MPI_COMM_SELF, name, &length) == MPI_SUCCESS &&
           strcmp(name, dead_name) == 0;
}

int tutti_mpi_status(int code, const char *what, struct tutti_err *err)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "unknown error";
    int length = 0;

    if (code == MPI_SUCCESS)
        return 0;
    (void)MPI_Error_string(code, text, &length);
    return tutti_fail(err, TUTTI_EIO, "cannot %s: %s", what, text);
}

int64_t tutti_mpi_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

struct tutti_mpi_patience tutti_mpi_patience(tutti_ps timeout_ps)
{
    int64_t now_ns = tutti_mpi_now_ns();

    return (struct tutti_mpi_patience){.began_ns = now_ns,
                                       .limit_ns = now_ns + timeout_ps / TUTTI_PS_PER_NS};
}

bool tutti_mpi_rest(struct tutti_mpi_patience *patience)
{
    int64_t now_ns = tutti_mpi_now_ns();

    if (now_ns >= patience->limit_ns)
        return false;
    if (now_ns - patience->began_ns < YIELD_NS) {
        sched_yield();
        return true;
    }
    patience->backoff_ns = patience->backoff_ns == 0 ? BACKOFF_NS_MIN : 2 * patience->backoff_ns;
    if (patience->backoff_ns > BACKOFF_NS_MAX)
        patience->backoff_ns = BACKOFF_NS_MAX;
    nanosleep(&(struct timespec){.tv_nsec = patience->backoff_ns}, NULL);
    return true;
}

const char *tutti_mpi_name(char buf[TUTTI_MPI_NAME_BYTES])
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    char number[TUTTI_MPI_NAME_BYTES / 2] = "";
    int length = 0;

    (void)MPI_Get_library_version(text, &length);
    /* "MPICH Version:  4.0.2\nMPICH Release date: ...", "Open MPI v4.1.4, package: ...", "Intel(R)
     * MPI Library 2021.6 for Linux* OS". */
    text[strcspn(text, ",\n")] = '\0';
    if (sscanf(text, "MPICH Version: %31s", number) == 1)
        (void)snprintf(buf, TUTTI_MPI_NAME_BYTES, "MPICH %s", number);
    else
        (void)snprintf(buf, TUTTI_MPI_NAME_BYTES, "%.*s", TUTTI_MPI_NAME_BYTES - 1, text);
    return buf;
}

int tutti_mpi_begin(struct tutti_err *err)
{
    char name[TUTTI_MPI_NAME_BYTES];
    int begun = 0;
    int ended = 0;
    int provided = MPI_THREAD_SINGLE;
    int status = tutti_mpi_status(MPI_Finalized(&ended), "ask MPI whether it has ended", err);

    if (status == 0 && ended)
        return tutti_fail(err, TUTTI_EINVAL, "MPI has ended, and it does not begin again");
    if (status == 0)
        status = tutti_mpi_status(MPI_Initialized(&begun), "ask MPI whether it has begun", err);
    if (status == 0 && !begun)
        status = tutti_mpi_status(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided),
                                  "begin MPI", err);
    if (status == 0)
        status = tutti_mpi_status(MPI_Query_thread(&provided), "ask MPI about threads", err);
    if (status == 0 && provided < MPI_THREAD_SERIALIZED)
        return tutti_fail(err, TUTTI_ELACK,
                          "%s was begun for one thread only, and ranks are threads here (begin it "
                          "with MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED, or not at all)",
                          tutti_mpi_name(name));
    return status;
}

void tutti_mpi_end(tutti_ps deadline_ps)
{
    struct tutti_mpi_patience patience = tutti_mpi_patience(deadline_ps);
    MPI_Request request = MPI_REQUEST_NULL;
    int begun = 0;
    int ended = 0;
    int met = 0;

    if (MPI_Initialized(&begun) != MPI_SUCCESS || MPI_Finalized(&ended) != MPI_SUCCESS || !begun ||
        ended || is_dead() || MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS)
        return;
    do {
        if (MPI_Test(&request, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
    } while (!met && tutti_mpi_rest(&patience));
    if (met)
        (void)MPI_Finalize();
}
