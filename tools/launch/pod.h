/* What pods of a Job and of a TFJob have in common. */
#ifndef TUTTI_TOOLS_LAUNCH_POD_H
#define TUTTI_TOOLS_LAUNCH_POD_H

#include "tools/launch/manifest.h"

/* `blanks` of indentation stand before each line that these print. */

/* "metadata:" with name and namespace. */
void tutti_pod_print_metadata(const struct tutti_kubernetes *m, FILE *out);

/* "image:" of the container. */
void tutti_pod_print_image(const struct tutti_kubernetes *m, int blanks, FILE *out);

/* "args:" of the container, the words of `tutti train`. */
void tutti_pod_print_arguments(const struct tutti_kubernetes *m, int blanks, FILE *out);

/* An item of "env:": the secret; nothing where there is none. */
void tutti_pod_print_secret(const struct tutti_kubernetes *m, int blanks, FILE *out);

/* What else a container has: GPUs and volumes. */
void tutti_pod_print_resources(const struct tutti_kubernetes *m, uint32_t gpus, int blanks,
                               FILE *out);

/* "volumes:" of the pod; nothing without a claim. */
void tutti_pod_print_volumes(const struct tutti_kubernetes *m, int blanks, FILE *out);

/* Lines of '#': what is started, and what has to be there first. */
void tutti_pod_print_head(const struct tutti_kubernetes *m, FILE *out);

/* A scalar of YAML in double quotes. Printable ASCII. */
void tutti_yaml_print(const char *text, FILE *out);

#endif
