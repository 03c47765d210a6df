"""The broker: answers clients from the store and from what it knows about them."""
