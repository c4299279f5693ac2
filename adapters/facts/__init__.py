"""What each platform says and wants to hear; one pure file per platform, beside its adapter."""
