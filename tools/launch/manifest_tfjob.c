/* A TFJob, kubeflow.org/v1, of Kubeflow's training-operator (v1.9; its successor, Trainer v2, has
 * no such kind). The operator makes the services and sets TF_CONFIG, in the container of the name
 * "tensorflow" alone.
 *
 * restartPolicy OnFailure: who has lost a peer for good ends with 1, which policy ExitCode,
 * restarting 128 and above alone, would take for the end of all. The operator makes a pod that has
 * failed again under OnFailure, and backoffLimit counts the restarts of all. */
#include <inttypes.h>
#include <string.h>

#include "tools/launch/pod.h"

static void print_replica(const struct tutti_kubernetes *m, const struct tutti_task_type *type,
                          FILE *out)
{
    const bool computes = strcmp(type->name, "chief") == 0 || strcmp(type->name, "worker") == 0;

    fprintf(out,
            "    %s:\n"
            "      replicas: %" PRIu32 "\n"
            "      restartPolicy: OnFailure\n"
            "      template:\n"
            "        spec:\n"
            "          terminationGracePeriodSeconds: %d\n"
            "          containers:\n"
            "          - name: tensorflow\n",
            type->replica, type->count, TUTTI_MANIFEST_GRACE_S);
    tutti_pod_print_image(m, 12, out);
    fputs("            command:\n"
          "            - tutti\n"
          "            - train\n",
          out);
    tutti_pod_print_arguments(m, 12, out);
    if (m->secret != NULL)
        fputs("            env:\n", out);
    tutti_pod_print_secret(m, 12, out);
    fprintf(out,
            "            ports:\n"
            "            - name: tfjob-port\n"
            "              containerPort: %d\n",
            TUTTI_MANIFEST_PORT);
    tutti_pod_print_resources(m, computes ? m->gpus : 0, 12, out);
    tutti_pod_print_volumes(m, 10, out);
}

void tutti_kubernetes_print_tfjob(const struct tutti_kubernetes *m, FILE *out)
{
    tutti_pod_print_head(m, out);
    fputs("apiVersion: kubeflow.org/v1\nkind: TFJob\n", out);
    tutti_pod_print_metadata(m, out);
    fprintf(out,
            "spec:\n"
            "  runPolicy:\n"
            "    cleanPodPolicy: Running\n"
            "    backoffLimit: %" PRIu32 "\n"
            "  tfReplicaSpecs:\n",
            m->restarts * m->tasks->count);
    for (size_t i = 0; i < TUTTI_TASK_TYPES; i++)
        if (m->tasks->types[i].count > 0)
            print_replica(m, &m->tasks->types[i], out);
}
