"""Files of earlier states of this repository, which every later one opens.

corpus/STATE.tar.xz    a data folder as a broker of that state left it, and databases of outbox and marks
writing.py             runs inside that state and writes the folder; make_corpus.py packs it
"""
