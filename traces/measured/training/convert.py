#!/usr/bin/env python3
"""Makes the compact tables of this folder from collected tables of training steps.

    traces/measured/training/convert.py DATA           write the tables beside this script
    traces/measured/training/convert.py DATA --check   say whether they are what would be written
    traces/measured/training/convert.py --typed [--check]  those alone that are typed below, from
                                                       their figures: needs no DATA

DATA is the folder of collected data with training/*.csv: a header, a row a measurement. A compact
table has the same rows in the same order, without the columns that are empty everywhere; what
seldom changes from row to row stands in remarks ("# COLUMN: VALUE", valid from there on), as
traces/training.h explains, which reads them. The same data give the same bytes.
"""
import csv
import io
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# The page of which the figures of DLPerf's TF2 BERT were typed; sequences/s, medians of five runs.
BERT_SOURCE = 'github:Oneflow-Inc/DLPerf@d75382e56a14:TensorFlow/bert/README.md'
BERT = [  # precision, batch a GPU, XLA, at 1, 2, 4, 8, 16 and 32 GPUs
    ('FP32', 32, 'off', (103.58, 177.18, 347.83, 675.82, 909.0, 1551.52)),
    ('FP32', 32, 'on', (125.37, 216.46, 421.79, 775.93, 1022.99, 1693.59)),
    ('FP32', 48, 'off', (108.94, 194.29, 384.59, 752.21, 1106.71, 1956.1)),
    ('FP32', 48, 'on', (131.27, 236.58, 468.83, 877.55, 1262.4, 2168.44)),
    ('FP32', 64, 'off', (112.99, 204.16, 402.02, 805.43, 1239.3, 2244.38)),
    ('FP32', 64, 'on', (138.21, 254.91, 505.63, 959.02, 1448.74, 2544.74)),
    ('AMP', 64, 'off', (228.66, 385.19, 746.9, 1402.41, 1893.51, 3194.02)),
    ('AMP', 64, 'on', (414.78, 748.66, 1311.35, 2241.6, 2565.99, 4113.68)),
    ('AMP', 96, 'off', (258.18, 440.72, 868.12, 1669.07, 2421.33, 4168.79)),
    ('AMP', 96, 'on', (466.34, 851.97, 1557.31, 2773.8, 3506.12, 5735.19)),
    ('AMP', 128, 'on', (503.47, 924.4, 1694.3, 3200.86, 4243.96, 7101.16)),
]
# Of the table without families, the systems that are taken, and what their families are called.
SYSTEMS = {'DGX-1 P100': 'tf11_dgx1_p100', 'GCE n1-standard-32-k80x8': 'tf11_gce_k80',
           'EC2 p2.8xlarge': 'tf11_ec2_k80', 'EC2 p2.8xlarge cluster': 'tf11_ec2_k80_cluster',
           '4-node V100 DGX-1 class': 'dlperf_v100'}
# How the variables were kept in TF's benchmarks, from the page itself: by family and model.
PS_CPU, PS_GPU = 'parameter_server on the CPU', 'parameter_server on a GPU'
VARIABLES = {
    'tf11_dgx1_p100': {'AlexNet': 'replicated, NCCL', 'VGG16': 'replicated, NCCL', '': PS_CPU},
    'tf11_gce_k80': {'': PS_CPU},
    'tf11_ec2_k80': {'ResNet-50': 'replicated, without NCCL',
                     'ResNet-152': 'replicated, without NCCL',
                     'AlexNet': PS_GPU, 'VGG16': PS_GPU, '': PS_CPU},
    'tf11_ec2_k80_cluster': {'': 'distributed_replicated, synchronous, a parameter server a node'}}
# But for these on eight nodes: by model and batch.
SERVERS = {('InceptionV3', '64'): ', 6 on 8 nodes', ('ResNet-50', '32'): ', 4 on 8 nodes',
           ('ResNet-152', '32'): ', 4 on 8 nodes'}
PAPERS = ('megatron_sc21', 'korthikanti', 'llama3_405b', 'ibm_fms_fsdp')


def rows_of(data, name):
    with open(os.path.join(data, 'training', name), encoding='utf-8', newline='') as file:
        rows = list(csv.DictReader(file))
    for row in rows:  # sources are papers and repositories, not notes beside them
        row['source'] = re.sub('(; values as in facts/.*| \\(facts/.*\\))$', '', row['source'])
    return rows


def variables_of(row):
    by_model = VARIABLES[row['family']]
    variables = by_model.get(row['model'], by_model[''])
    cluster = row['family'].endswith('_cluster')
    servers = SERVERS.get((row['model'], row['batch_per_gpu']), '') if cluster else ''
    return variables + servers


def trusted(rows):
    """The rows of NVIDIA's examples, degraded where their settings cannot be right: the table's
    heading, which the note ends with, names another precision, or two rows of the same settings
    are more than a fifth apart (two models under one name)."""
    figures = {}
    for row in rows:
        figures.setdefault(settings_of(row), []).append(float(row['throughput']))
    for row in rows:
        heading = row['note'].rsplit('|', 1)[-1]
        full = any(word in heading for word in ('TF32', 'FP32'))
        same = figures[settings_of(row)]
        if (full and row['precision'] == 'mixed') or max(same) > 1.2 * min(same):
            row = dict(row, quality='degraded')
        yield row


def completed(row):
    """What NVIDIA's pages say of a row's settings beside its table: a DGX-2 has V100 of 32 GB, and
    so has the DGX-1 of BERT's fine-tuning at 24 and 10 a device (headings of its README); BioBERT's
    fine-tuning is of 128 tokens (scripts/ner_bc5cdr-chem.sh)."""
    large = row['system'].startswith('DGX-2') or (
        row['model'].endswith('BERT') and row['batch_per_gpu'] == '24, 10')
    if row['gpu'] == 'V100' and large:
        row = dict(row, gpu='V100-32GB')
    if row['model'].endswith('biobert') and not row.get('seq_len'):
        row = dict(row, seq_len='128')
    return row


# Interleaved stages of a device that the sources state elsewhere: Korthikanti et al. 2022, table 3,
# and NVIDIA's recipe of the same settings in its README of 2025-06-10, which the one before leaves
# out.
CHUNKS = {('korthikanti', 'GPT-3 175B'): '3', ('korthikanti', 'MT-NLG 530B'): '3',
          ('dgxc_h100', 'Nemotron4 340b'): '12'}


def chunked(row):
    chunks = CHUNKS.get((row['family'], row['model']))
    return dict(row, vp=chunks) if chunks and not row.get('vp') else row


def settings_of(row):
    return tuple(row[column] for column in row if column not in
                 ('throughput', 'unit', 'quality', 'source', 'note'))


def step_tables(data):
    """Tables of training steps: name, rows."""
    yield 'vtrain', rows_of(data, 'vtrain_a100_single_node.csv')
    yield 'internevo', rows_of(data, 'internevo_7b_a100_scaling.csv')
    yield 'ultrascale', rows_of(data, 'ultrascale_h100_1B_8B.csv')
    yield 'dgxc', [chunked(row) for row in rows_of(data, 'dgxc_h100_llm_scaling.csv')]
    yield 'papers', [chunked(row) for row in rows_of(data, 'llm_papers_and_misc.csv')
                     if row['family'] in PAPERS]
    yield 'detectron2', rows_of(data, 'detectron2_v100_step_memory.csv')
    examples = [row for row in rows_of(data, 'nvidia_dle_tf_mxnet_paddle.csv')
                if not row['unit'].startswith('time to train') and row['gpus'] in ('1', '4', '8')]
    yield 'nvidia_examples', list(trusted([completed(row) for row in examples]))
    benchmarks = [dict(family=SYSTEMS[row['system']], **row)
                  for row in rows_of(data, 'training_throughput.csv') if row['system'] in SYSTEMS]
    yield 'tf_benchmarks', [dict(row, variables=variables_of(row)) for row in benchmarks
                            if row['family'].startswith('tf11')]
    # DLPerf trains BERT on Wikipedia in sentences of 128 tokens, 20 of them hidden (its scripts).
    yield 'dlperf', [dict(row, seq_len='128' if 'BERT' in row['model'] else '')
                     for row in benchmarks if row['family'].startswith('dlperf')]


def typed_tables():
    """The figures above as rows."""
    rows = []
    for precision, batch, xla, figures in BERT:
        for gpus, figure in zip((1, 2, 4, 8, 16, 32), figures):
            rows.append({
                'family': 'dlperf_tf2_bert', 'system': '4-node V100 DGX-1 class',
                'gpu': 'Tesla V100-SXM2-16GB', 'gpus_per_node': min(gpus, 8),
                'nodes': max(gpus // 8, 1), 'gpus': gpus,
                'network': 'InfiniBand EDR 1 x 100 Gb/s per node',
                'framework': 'TensorFlow 2.3, MirroredStrategy on one node, '
                             'MultiWorkerMirroredStrategy with NCCL 2.7.3 on several',
                'model': 'BERT-base pretrain', 'seq_len': 128, 'precision': precision,
                'batch_per_gpu': batch, 'variant': 'XLA=' + xla, 'throughput': figure,
                'unit': 'sentences/s', 'quality': 'good', 'source': BERT_SOURCE})
    yield 'dlperf_tf2_bert', rows


def plain_tables(data):
    """Other figures that predictions rest on, under their own columns: no steps."""
    yield 'rates/input_rates', rows_of(data, 'input_pipeline_rates.csv')
    yield 'rates/gemm', rows_of(data, 'gemm_achieved_tflops.csv')
    yield 'rates/ultrascale_collectives', rows_of(data, 'ultrascale_h100_collectives.csv')


def compact(name, rows):
    """The text of a table: remarks for what seldom changes, columns for the rest."""
    rows = [{column: str(value or '') for column, value in row.items()} for row in rows]
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    changes = {column: sum(a[column] != b[column] for a, b in zip(rows, rows[1:]))
               for column in columns}
    notes = {row['note'] for row in rows} if 'note' in columns else set()
    if len(notes) > len(rows) // 8 + 1:
        columns.remove('note')  # of nearly every row another, which nothing is read from
    seldom = [column for column in columns if changes[column] <= len(rows) // 8]
    often = [column for column in columns if column not in seldom]
    out = io.StringIO()
    out.write('# %s: written by convert.py, which stands beside\n' % name)
    writer = csv.writer(out, lineterminator='\n')
    last = {column: '' for column in seldom}
    remarks = []
    for row in rows:
        remarks.append([column for column in seldom if row[column] != last[column]])
        last.update((column, row[column]) for column in seldom)
    for index, row in enumerate(rows):
        for column in remarks[index]:
            out.write('# %s: %s\n' % (column, row[column]))
        if index == 0:
            writer.writerow(often)
        writer.writerow([row[column] for column in often])
    return out.getvalue()


def plain(name, rows):
    out = io.StringIO()
    out.write('# %s: written by convert.py, which stands in the folder above\n' % name)
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def main(arguments):
    check = '--check' in arguments
    typed = '--typed' in arguments
    folders = [word for word in arguments if not word.startswith('--')]
    if len(folders) != (0 if typed else 1):
        sys.exit(__doc__)
    texts = [(name, compact(name, rows)) for name, rows in typed_tables()]
    if not typed:
        texts += [(name, compact(name, rows)) for name, rows in step_tables(folders[0])]
        texts += [(name, plain(name, rows)) for name, rows in plain_tables(folders[0])]
    wrong = 0
    for name, text in texts:
        path = os.path.join(HERE, name + '.csv')
        if not check:
            with open(path, 'w', encoding='utf-8', newline='') as file:
                file.write(text)
            continue
        try:
            with open(path, encoding='utf-8', newline='') as file:
                same = file.read() == text
        except FileNotFoundError:
            same = False
        if not same:
            print('%s is not what would be written' % path, file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
