/* Counts the processors' time that others took; see cpu_steal.h. */
#include "tools/run/cpu_steal.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static cpu_set_t allowed_processors(void)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        CPU_ZERO(&allowed);
    return allowed;
}

/* All but idle and waiting for a disk, summed over the lines "cpuN" of processors that we may use
 * (proc_stat(5): user nice system idle iowait irq softirq steal). */
static double busy_s(void)
{
    FILE *file = fopen("/proc/stat", "r");
    double ticks_per_s = (double)sysconf(_SC_CLK_TCK);
    double ticks = -1;
    cpu_set_t allowed = allowed_processors();
    char line[512];

    if (file == NULL)
        return -1;
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long long user, nice, system, idle, wait, irq, soft, steal;
        unsigned number;

        if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &number, &user, &nice,
                   &system, &idle, &wait, &irq, &soft, &steal) != 9)
            continue;
        if (number < CPU_SETSIZE && CPU_ISSET(number, &allowed))
            ticks = (ticks < 0 ? 0 : ticks) + (double)(user + nice + system + irq + soft + steal);
    }
    fclose(file);
    return ticks < 0 || !(ticks_per_s > 0) ? -1 : ticks / ticks_per_s;
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double own_s(int who)
{
    struct rusage usage;

    if (getrusage(who, &usage) != 0)
        return 0;
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct tutti_cpu_steal tutti_cpu_steal_look(void)
{
    struct tutti_cpu_steal look = {.busy_s = busy_s(),
                                   .own_s = own_s(RUSAGE_SELF) + own_s(RUSAGE_CHILDREN)};
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    look.wall_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    return look;
}

double tutti_cpu_steal_percent(const struct tutti_cpu_steal *since)
{
    struct tutti_cpu_steal now = tutti_cpu_steal_look();
    cpu_set_t allowed = allowed_processors();
    double all_s = (now.wall_s - since->wall_s) * CPU_COUNT(&allowed);
    double others_s = now.busy_s - since->busy_s - (now.own_s - since->own_s);

    if (since->busy_s < 0 || now.busy_s < 0 || !(all_s > 0) || others_s <= 0)
        return 0;
    return others_s < all_s ? 100 * others_s / all_s : 100;
}
