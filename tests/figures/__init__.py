"""The README's pictures: `make figures` draws and photographs them anew."""
