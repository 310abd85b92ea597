/* A headless Service, by which the pods find each other, and an indexed Job: one pod a task, which
 * keeps its name JOB-INDEX.SERVICE when it is made again.
 *
 * Fields: Kubernetes API reference, batch/v1 Job and core/v1 Service; "Job with Pod-to-Pod
 * Communication" and "Handling retriable and non-retriable pod failures with Pod failure policy" of
 * its documentation. backoffLimitPerIndex (1.29 beta, 1.33 stable) asks for restartPolicy Never, so
 * that the Job, not the kubelet, starts a pod again: on any node. successPolicy: 1.31 beta, 1.33
 * stable. */
#include <inttypes.h>

#include "tools/launch/pod.h"

static void print_service(const struct tutti_kubernetes *m, FILE *out)
{
    fputs("apiVersion: v1\nkind: Service\n", out);
    tutti_pod_print_metadata(m, out);
    fprintf(out,
            "spec:\n"
            "  clusterIP: None\n"
            "  publishNotReadyAddresses: true\n"
            "  selector:\n"
            "    job-name: \"%s\"\n"
            "  ports:\n"
            "  - name: tutti\n"
            "    port: %d\n",
            m->name, TUTTI_MANIFEST_PORT);
}

/* Wrong usage stays wrong (2, 77); who was told to end and has saved, or whose node goes, is
 * started again without being counted; all else counts. */
static void print_failures(const struct tutti_kubernetes *m, FILE *out)
{
    fputs("  podFailurePolicy:\n"
          "    rules:\n"
          "    - action: FailJob\n"
          "      onExitCodes:\n"
          "        containerName: tutti\n"
          "        operator: In\n"
          "        values:\n"
          "        - 2\n"
          "        - 77\n",
          out);
    if (m->train->saves)
        fprintf(out,
                "    - action: Ignore\n"
                "      onExitCodes:\n"
                "        containerName: tutti\n"
                "        operator: In\n"
                "        values:\n"
                "        - %" PRIu32 "\n",
                m->train->stop_code);
    fputs("    - action: Ignore\n"
          "      onPodConditions:\n"
          "      - type: DisruptionTarget\n",
          out);
}

/* Training is over when the first task has ended well, which is the one that leads, and who looks
 * at its last checkpoint: a pod that was made again too late finds nobody any more. */
static void print_success(const struct tutti_kubernetes *m, FILE *out)
{
    const struct tutti_task_type *evaluator = tutti_tasks_started_of(m->tasks, "evaluator");

    fputs("  successPolicy:\n"
          "    rules:\n"
          "    - succeededIndexes: \"0",
          out);
    if (evaluator->count > 0)
        fprintf(out, ",%" PRIu32, evaluator->first);
    fputs("\"\n", out);
}

/* {"chief":["NAME-0.NAME:2222"],"worker":[...]}, in which no quote ' can be. */
static void print_cluster(const struct tutti_kubernetes *m, FILE *out)
{
    const char *before = "{";

    for (size_t i = 0; i < TUTTI_TASK_TYPES; i++) {
        const struct tutti_task_type *t = &m->tasks->types[i];

        if (t->count == 0)
            continue;
        fprintf(out, "%s\"%s\":[", before, t->name);
        for (uint32_t k = 0; k < t->count; k++)
            fprintf(out, "%s\"%s-%" PRIu32 ".%s:%d\"", k > 0 ? "," : "", m->name, t->first + k,
                    m->name, TUTTI_MANIFEST_PORT);
        fputc(']', out);
        before = ",";
    }
    fputc('}', out);
}

static void print_container(const struct tutti_kubernetes *m, FILE *out)
{
    fputs("      containers:\n      - name: tutti\n", out);
    tutti_pod_print_image(m, 8, out);
    fputs("        command:\n"
          "        - /bin/sh\n"
          "        - -c\n"
          "        - |\n"
          "          # Which task this pod is, by its index.\n",
          out);
    tutti_tasks_started_print_shell(m->tasks, "JOB_COMPLETION_INDEX", "          ", out);
    fputs("        - tutti\n", out);
    tutti_pod_print_arguments(m, 8, out);
    fputs("        env:\n        - name: TUTTI_CLUSTER\n          value: '", out);
    print_cluster(m, out);
    fputs("'\n", out);
    tutti_pod_print_secret(m, 8, out);
    fprintf(out, "        ports:\n        - containerPort: %d\n", TUTTI_MANIFEST_PORT);
    tutti_pod_print_resources(m, m->gpus, 8, out);
}

void tutti_kubernetes_print_job(const struct tutti_kubernetes *m, FILE *out)
{
    tutti_pod_print_head(m, out);
    print_service(m, out);
    fputs("---\napiVersion: batch/v1\nkind: Job\n", out);
    tutti_pod_print_metadata(m, out);
    fprintf(out,
            "spec:\n"
            "  completionMode: Indexed\n"
            "  completions: %" PRIu32 "\n"
            "  parallelism: %" PRIu32 "\n"
            "  backoffLimitPerIndex: %" PRIu32 "\n"
            "  maxFailedIndexes: 0\n",
            m->tasks->count, m->tasks->count, m->restarts);
    print_success(m, out);
    print_failures(m, out);
    fprintf(out,
            "  template:\n"
            "    spec:\n"
            "      subdomain: \"%s\"\n"
            "      restartPolicy: Never\n"
            "      terminationGracePeriodSeconds: %d\n",
            m->name, TUTTI_MANIFEST_GRACE_S);
    print_container(m, out);
    tutti_pod_print_volumes(m, 6, out);
}
