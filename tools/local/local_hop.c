/* How far apart two processors are: a cache line handed to and fro between them; see local.h. */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/group.h"
#include "runtime/status.h"
#include "tools/local/local.h"

enum { LOOKS = 5, HOPS = 64 };

struct probe {
    alignas(128) atomic_uint ball;
    alignas(128) cpu_set_t processors[2];
    double hop_ns[LOOKS];
};

static double now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *answer(void *data)
{
    struct probe *probe = data;

    (void)pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), &probe->processors[1]);
    for (unsigned i = 0; i < LOOKS * HOPS; i++) {
        while (atomic_load_explicit(&probe->ball, memory_order_acquire) != 2 * i + 1)
            ;
        atomic_store_explicit(&probe->ball, 2 * i + 2, memory_order_release);
    }
    return NULL;
}

static void *ask(void *data)
{
    struct probe *probe = data;

    (void)pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), &probe->processors[0]);
    for (unsigned look = 0; look < LOOKS; look++) {
        double start_ns = now_ns();

        for (unsigned i = look * HOPS; i < (look + 1) * HOPS; i++) {
            atomic_store_explicit(&probe->ball, 2 * i + 1, memory_order_release);
            while (atomic_load_explicit(&probe->ball, memory_order_acquire) != 2 * i + 2)
                ;
        }
        probe->hop_ns[look] = (now_ns() - start_ns) / (2 * HOPS);
    }
    return NULL;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The processors that ranks 0 and 1 are tied to. False: there is one only. */
static bool find_processors(struct probe *probe)
{
    cpu_set_t allowed;
    int found = 0;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return false;
    for (size_t i = 0; i < CPU_SETSIZE && found < 2; i++) {
        if (!CPU_ISSET(i, &allowed))
            continue;
        CPU_ZERO(&probe->processors[found]);
        CPU_SET(i, &probe->processors[found++]);
    }
    return found == 2;
}

static double hop_ns(void)
{
    struct probe *probe = aligned_alloc(128, sizeof(*probe));
    pthread_t one;
    pthread_t other;
    double ns = 0;

    if (probe == NULL)
        return 0;
    atomic_init(&probe->ball, 0);
    if (find_processors(probe) && pthread_create(&one, NULL, ask, probe) == 0) {
        if (pthread_create(&other, NULL, answer, probe) == 0)
            pthread_join(other, NULL);
        else
            (void)answer(probe); /* here: nothing to compare with, but nobody waits for ever */
        pthread_join(one, NULL);
        qsort(probe->hop_ns, LOOKS, sizeof(probe->hop_ns[0]), compare);
        ns = probe->hop_ns[LOOKS / 2];
    }
    free(probe);
    return ns;
}

int tutti_local_look(const struct tutti_local_ask *ask, double *ret_ns, struct tutti_err *err)
{
    struct tutti_group *group = ask->group;
    double mine_ns = group == NULL || group->index == 0 ? hop_ns() : 0;
    double *all_ns;
    int status;

    if (group == NULL) {
        *ret_ns = mine_ns;
        return 0;
    }
    all_ns = calloc(group->count, sizeof(*all_ns));
    status = tutti_group_agree(group, all_ns == NULL ? tutti_nomem(err) : 0, ask->deadline_ps, err);
    if (status == 0)
        status =
            tutti_group_exchange(group, &mine_ns, sizeof(mine_ns), all_ns, ask->deadline_ps, err);
    if (status == 0)
        *ret_ns = all_ns[0];
    free(all_ns);
    return status;
}

bool tutti_local_moved(double one_ns, double other_ns)
{
    /* Looks at processors that stay where they are differ by up to 1.3; cores of one group are 1.4
     * times as far apart as threads of one core, and those of two groups farther still. */
    static const double steady = 1.35;

    if (!(one_ns > 0 && other_ns > 0))
        return false;
    return one_ns > steady * other_ns || other_ns > steady * one_ns;
}
