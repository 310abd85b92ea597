/* The manifests of a training on Kubernetes: a headless Service and an indexed Job, or a TFJob. */
#ifndef TUTTI_TOOLS_LAUNCH_MANIFEST_H
#define TUTTI_TOOLS_LAUNCH_MANIFEST_H

#include <stdint.h>
#include <stdio.h>

#include "tools/launch/tasks.h"
#include "tools/launch/words.h"

enum {
    TUTTI_MANIFEST_PORT = 2222,    /* TFJob's own, of all tasks */
    TUTTI_MANIFEST_NAME_MAX = 48,  /* with "-evaluator-0" behind it a label has 63 at most */
    TUTTI_MANIFEST_LABEL_MAX = 63, /* RFC 1123 */
    TUTTI_MANIFEST_GRACE_S = 120,  /* between SIGTERM and SIGKILL: to save */
    TUTTI_MANIFEST_RESTARTS_MAX = 1000,
};

struct tutti_kubernetes {
    const struct tutti_tasks_started *tasks;
    const struct tutti_train_words *train;
    const char *name;
    const char *name_space; /* NULL: that of whoever applies it */
    const char *image;
    const char *secret; /* name of the Secret that holds TUTTI_SECRET; NULL: none is needed */
    const char *claim;  /* a PersistentVolumeClaim; NULL: none */
    const char *mount;  /* where it lies in the containers */
    uint32_t restarts;  /* of each pod */
    uint32_t gpus;      /* of each pod; of a TFJob, of chief and workers */
};

/* Into `out`, which is checked by whoever flushes it. */
void tutti_kubernetes_print_job(const struct tutti_kubernetes *m, FILE *out);
void tutti_kubernetes_print_tfjob(const struct tutti_kubernetes *m, FILE *out);

#endif
