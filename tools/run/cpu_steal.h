/* CPU steal: the share of the processors' time that other programs took during a run, by which all
 * of its times grow. */
#ifndef TUTTI_TOOLS_RUN_CPU_STEAL_H
#define TUTTI_TOOLS_RUN_CPU_STEAL_H

/* A moment: seconds since some time. */
struct tutti_cpu_steal {
    double wall_s;
    double busy_s; /* of the processors that this process may use; < 0: not known */
    double own_s;  /* of them, this process and those it has waited for */
};

struct tutti_cpu_steal tutti_cpu_steal_look(void);

/* Since that look, percent of the processors' time, also what the host of a virtual machine took;
 * 0: none, or not known. Exact to a tick of the system's (10 ms). */
double tutti_cpu_steal_percent(const struct tutti_cpu_steal *since);

#endif
