"""Everything for TensorBoard, without TensorFlow.

    events.py     event files: scalars, histograms, texts
    once.py       events that a file holds once: hyperparameters, graph, charts, an animation
    records.py    the records that event files consist of
    read_events.py  reads scalars back
    tags.py       the table of tags, with unit and meaning
    hparams_tab.py  the order of columns in the HParams tab of the launcher
    launcher.py   quick start of TensorBoard for a run, `python -m targetnet.rl_core.board`
    steer/        the Steer tab

Imports: rl_core.arguments, rl_core.control, rl_core.errors, rl_core.hyperparameters,
rl_core.files, rl_core.search_path.
"""
