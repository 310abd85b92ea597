/* Solving for max-min fair rates near the flows that came or went. */
#ifndef TUTTI_SIM_NET_MAXMIN_NEAR_H
#define TUTTI_SIM_NET_MAXMIN_NEAR_H

struct tutti_maxmin;

/* As tutti_maxmin_solve, which calls it: few links are dirty. */
void tutti_maxmin_solve_near(struct tutti_maxmin *maxmin);

#endif
