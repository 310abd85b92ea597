/* Prints what pods of a Job and of a TFJob have in common; see pod.h. */
#include "tools/launch/pod.h"

#include <inttypes.h>

#include "build.h"

void tutti_yaml_print(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* Kubernetes puts variables in the place of $(NAME) in arguments, and '$' in that of "$$". */
static void print_argument(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if (*text == '$')
            fputc('$', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

void tutti_pod_print_metadata(const struct tutti_kubernetes *m, FILE *out)
{
    fprintf(out, "metadata:\n  name: \"%s\"\n", m->name);
    if (m->name_space != NULL)
        fprintf(out, "  namespace: \"%s\"\n", m->name_space);
}

void tutti_pod_print_image(const struct tutti_kubernetes *m, int blanks, FILE *out)
{
    fprintf(out, "%*simage: ", blanks, "");
    tutti_yaml_print(m->image, out);
    fputc('\n', out);
}

void tutti_pod_print_arguments(const struct tutti_kubernetes *m, int blanks, FILE *out)
{
    fprintf(out, "%*sargs:\n", blanks, "");
    for (uint32_t i = 0; i < m->train->count; i++) {
        fprintf(out, "%*s- ", blanks, "");
        print_argument(m->train->words[i], out);
        fputc('\n', out);
    }
}

void tutti_pod_print_secret(const struct tutti_kubernetes *m, int blanks, FILE *out)
{
    if (m->secret == NULL)
        return;
    fprintf(out,
            "%*s- name: TUTTI_SECRET\n%*s  valueFrom:\n%*s    secretKeyRef:\n"
            "%*s      name: \"%s\"\n%*s      key: secret\n",
            blanks, "", blanks, "", blanks, "", blanks, "", m->secret, blanks, "");
}

void tutti_pod_print_resources(const struct tutti_kubernetes *m, uint32_t gpus, int blanks,
                               FILE *out)
{
    if (gpus > 0)
        fprintf(out, "%*sresources:\n%*s  limits:\n%*s    nvidia.com/gpu: %" PRIu32 "\n", blanks,
                "", blanks, "", blanks, "", gpus);
    if (m->claim == NULL)
        return;
    fprintf(out, "%*svolumeMounts:\n%*s- name: data\n%*s  mountPath: ", blanks, "", blanks, "",
            blanks, "");
    tutti_yaml_print(m->mount, out);
    fputc('\n', out);
}

void tutti_pod_print_volumes(const struct tutti_kubernetes *m, int blanks, FILE *out)
{
    if (m->claim != NULL)
        fprintf(out,
                "%*svolumes:\n%*s- name: data\n%*s  persistentVolumeClaim:\n"
                "%*s    claimName: \"%s\"\n",
                blanks, "", blanks, "", blanks, "", blanks, "", m->claim);
}

void tutti_pod_print_head(const struct tutti_kubernetes *m, FILE *out)
{
    fprintf(out, "# tutti %s launch kubernetes: ", TUTTI_BUILD_VERSION);
    tutti_tasks_started_print(m->tasks, out);
    fputs("\n# To start them: kubectl apply -f FILE\n", out);
    if (m->secret != NULL)
        fprintf(out,
                "# First, once:\n#   kubectl create secret generic %s%s%s "
                "--from-literal=secret=\"$(openssl rand -hex 32)\"\n",
                m->secret, m->name_space != NULL ? " -n " : "",
                m->name_space != NULL ? m->name_space : "");
    if (!m->train->saves)
        fputs("# Without train's --checkpoint, on a volume that all pods share (--volume), pods "
              "that restart begin\n# at step 0, and a pod that is told to end saves nothing.\n",
              out);
}
