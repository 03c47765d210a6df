"""The words everybody uses: frozen values without I/O."""
