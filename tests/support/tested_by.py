"""Where a module is tested that no test in the folder of its package imports.

tests/test_tested_by.py checks both tables.
"""

# A test file elsewhere, which imports the module.
ELSEWHERE = {
    "checkpoints/google_write.py": "export/test_convert.py",
    "checkpoints/run_folder.py": "robustness/test_settings.py",
    "cli/convert.py": "export/test_convert.py",
    "cli/create_pretraining_data.py": "robustness/test_texts.py",
    "cli/doctor/selftest.py": "end_to_end/distributed/test_selftest.py",
    "cli/domain_vocab.py": "robustness/test_texts.py",
    "cli/main.py": "test_readme.py",
    "cli/run_classifier.py": "robustness/test_flags_hostile.py",
    "cli/run_pretraining.py": "robustness/test_flags_hostile.py",
    "config/domain_vocab.py": "data_prep/domain/test_domain_vocab.py",
    "config/preparation.py": "data_prep/test_mistaken_texts.py",
    "core/activations.py": "config/test_settings.py",
    "core/extras.py": "test_packaging.py",
    "core/hashing.py": "test_layout.py",
    "core/rng/shuffles.py": "end_to_end/test_random_numbers.py",
    "data_prep/vocab_report.py": "text/test_vocab_coverage.py",
    "distributed/host.py": "cli/test_doctor.py",
    "evaluation/report.py": "end_to_end/evaluation/test_reporting.py",
    "runs/finetune.py": "end_to_end/test_mistakes.py",
    "runs/init_distributed.py": "distributed/test_devices.py",
    "runs/memory.py": "end_to_end/test_plan.py",
    "runs/plan.py": "end_to_end/test_plan.py",
    "runs/score_sentences.py": "distributed/test_collective.py",
    "training/programs.py": "end_to_end/test_out_of_memory.py",
}
# No test imports these: the module that imports them, whose tests see what they do.
PARTS = {
    "checkpoints/casing.py": ("checkpoints/pretrained.py", "a rule of its search"),
    "checkpoints/tensor_bundle.py": ("checkpoints/google_read.py", "its file format"),
    "cli/doctor/task_data.py": ("cli/doctor/environment.py", "run as `doctor data`"),
    "cli/flag_checks.py": ("cli/run_classifier.py", "its refusals of flags"),
    "config/convert.py": ("cli/convert.py", "the table of its flags"),
    "core/log.py": ("cli/script.py", "the lines of every run"),
    "core/report.py": ("evaluation/report.py", "plain values that it draws"),
    "data/csv_lines.py": ("data/tables.py", "the lines of its CSV files"),
    "data_prep/statistics.py": ("data_prep/prepare.py", "what it prints at the end"),
    "data_prep/text_lines.py": ("data_prep/corpus.py", "the lines of its files"),
    "data_prep/tokenized.py": ("data_prep/parts.py", "the text of a part"),
    "data_prep/vocabulary.py": ("data_prep/domain_vocab.py", "the lines that it adds"),
    "evaluation/plots.py": ("evaluation/report.py", "its pictures"),
    "export/onnx.py": ("runs/export.py", "run by --export_onnx alone"),
    "model/recompute.py": ("model/bert.py", "layers under --recompute"),
    "runs/predict_stream.py": ("runs/finetune.py", "runs that read standard input"),
    "runs/predictor.py": ("runs/predict_stream.py", "the model of a stream"),
    "runs/pretrain.py": ("cli/run_pretraining.py", "its whole runs"),
    "runs/report.py": ("runs/finetune.py", "a stage of whole runs"),
    "runs/seeds.py": ("cli/run_classifier.py", "whole runs with --seeds"),
    "runs/stages.py": ("runs/finetune.py", "the stages of whole runs"),
    "tasks/base.py": ("tasks/registry.py", "a protocol, with nothing to run"),
    "training/failures.py": ("training/towers.py", "whole runs without memory"),
    "training/traced_once.py": ("training/programs.py", "each of its programs"),
}
